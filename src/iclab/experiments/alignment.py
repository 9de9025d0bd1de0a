"""Alignment of the state with ``beta`` against the context length: simulation over the exact curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from iclab.errors import InputError
from iclab.experiments.kind import Config, ExperimentKind
from iclab.experiments.reading import Figure, Finding, Panel, Reading, Table
from iclab.experiments.sections import Gate, SingleIndexPrompts, check_prompts_fit, sampling_seconds
from iclab.experiments.series import basis, number, places_of, present, quantity, series

if TYPE_CHECKING:
    import pandas as pd

    from iclab.evaluation import Measurement
    from iclab.runs.results import Results
    from iclab.theory import GateMoments

_BATCH = 32


class AlignmentConfig(Config):
    """Gates by name, measured on the same prompts; ``exact_to`` is how far the exact curve goes."""

    seed: int = Field(0, ge=0)
    prompts: SingleIndexPrompts = SingleIndexPrompts()
    gates: dict[str, Gate] = Field(
        {
            "mamba": Gate(gate="mamba"),
            "no decay": Gate(gate="no_decay"),
            "exponential": Gate(gate="exp"),
            "linear": Gate(gate="linear"),
        },
        min_length=1,
    )
    num_examples: list[int] = Field([16, 32, 64, 128, 256, 512, 1024, 2048, 4096], min_length=1)
    num_prompts: int = Field(256, ge=2)
    exact_to: int = Field(2**16, ge=1)


def run_cell(config: AlignmentConfig) -> list[Measurement]:
    """Simulated and exact alignment on the coordinates of the support, for every gate whose moments exist."""
    from iclab.evaluation import Measurement, alignment
    from iclab.prompts import Stream

    prompts = config.prompts.build(config.seed)
    exact = {name: moments for name, gate in config.gates.items() if (moments := _moments(config, gate)) is not None}
    parts: dict[tuple[str, int, int], list[np.ndarray]] = {}
    stream = Stream(config.seed).child("evaluation")
    for start in range(0, config.num_prompts, _BATCH):
        size = min(_BATCH, config.num_prompts - start)
        batch = prompts.sample(stream, size, max(config.num_examples), 0, start=start)
        for name in exact:
            model = config.gates[name].build(prompts.ambient_dim, 1)
            for n in config.num_examples:
                found = alignment(model, batch.prefix(n), prompts.support)
                for degree in (1, 2):
                    parts.setdefault((name, n, degree), []).append(found.samples(degree))
    measured = [
        Measurement(name, "alignment", np.concatenate(samples, 1), "alignment", n, {"degree": degree})
        for (name, n, degree), samples in parts.items()
    ]
    lengths = sorted({*config.num_examples, *(2**k for k in range(4, config.exact_to.bit_length()))})
    for name, moments in exact.items():
        for degree in (1, 2):
            curve = moments.alignment_curve(lengths, prompts.intrinsic_dim, degree)
            measured.extend(
                Measurement.exact(name, "exact_alignment", value, n, {"degree": degree})
                for n, value in zip(lengths, curve, strict=True)
            )
    return measured


def _moments(config: AlignmentConfig, gate: Gate) -> GateMoments | None:
    """The exact moments, or ``None`` where an exponential tilt has none (unbounded labels)."""
    from iclab.theory import GateMoments

    model = gate.build(config.prompts.ambient_dim, 1)
    moments = GateMoments(
        config.prompts.make_link(), config.prompts.noise, gate.rho, model.bias, max(config.num_examples), gate=gate.gate
    )
    try:
        _ = moments.token
    except InputError:
        if gate.gate == "exp":
            return None
        raise
    return moments


def check(config: AlignmentConfig) -> None:
    """Refuse what the types allow and the mathematics does not."""
    config.prompts.build(config.seed)
    check_prompts_fit("num_examples", _BATCH, max(config.num_examples), config.prompts.ambient_dim)
    if config.prompts.inputs != "gaussian":
        raise InputError(f"prompts.inputs is {config.prompts.inputs!r}; the exact curve is for gaussian inputs")
    clipped = [name for name, gate in config.gates.items() if gate.clip is not None]
    if clipped:
        raise InputError(f"gates.{clipped[0]}.clip is set; the exact curve is for unclipped labels: leave clip unset")
    for gate in config.gates.values():
        _moments(config, gate)
    if config.prompts.rotation is not None:
        raise InputError(
            "prompts.rotation is set; the exact curve is for a support among the coordinates: leave it unset"
        )
    if min(config.num_examples) < 1 or len(set(config.num_examples)) < len(config.num_examples):
        raise InputError(f"num_examples is {config.num_examples}; expected distinct lengths >= 1")


def read(results: Results) -> Reading:
    """Panels by link and dimension, and how often the exact value lies in the simulated interval."""
    summary = results.summary
    places = present(summary, "link", "ambient_dim", "intrinsic_dim")
    config = results.experiment["config"]
    findings, rows = [], []
    panels: dict[int, list[Panel]] = {1: [], 2: []}
    for place, part in places_of(summary, places):
        title = _title(place, config)
        absent = [name for name in config["gates"] if name not in set(part["learner"])]
        for degree in (1, 2):
            here = part[part["degree"] == degree]
            curves = []
            for learner, group in here.groupby("learner", sort=False):
                curves.append(series(group[group["metric"] == "alignment"], "num_examples", str(learner), "model"))
                exact = group[group["metric"] == "exact_alignment"]
                curves.append(series(exact, "num_examples", f"{learner}, exact", "theory", str(learner)))
            panels[degree].append(
                Panel(
                    title, "context examples N", f"alignment, degree {degree}", curves, "log2", y_limits=(-0.25, 1.05)
                )
            )
        findings.extend(_findings(title, part[part["degree"] == 1], absent))
        rows.extend(_rows(title, part))
    return Reading(
        findings=[_coverage(summary), *findings],
        figures=[
            Figure(
                f"alignment-degree-{degree}",
                f"E[S.u] / sqrt(E|S|^2) of the degree-{degree} block on the support, with u the direction "
                f"{'beta' if degree == 1 else 'beta beta'}: markers and bands simulated, lines exact.",
                panels[degree],
            )
            for degree in (1, 2)
        ],
        tables=[
            Table(
                "alignment",
                "Alignment at the largest simulated context length, beside the exact value.",
                ["prompts", "gate", "degree", "N", "simulated", "exact", "rests on"],
                rows,
            )
        ],
        notes=[
            "The bootstrap interval of a ratio is biased where the energy |S|^2 is heavy-tailed: rare prompts "
            "carry most "
            "of it, and a sample that lacks them overstates the alignment. The exact curve is then the better guide."
        ],
    )


def _title(place: object, config: dict) -> str:
    values = place if isinstance(place, tuple) else (place,)
    if not values:
        values = (config["prompts"]["link"],)
    return ", ".join(map(str, values))


def _both(part: pd.DataFrame) -> pd.DataFrame:
    """Simulated rows with the exact value beside them."""
    keys = [
        c for c in part.columns if c in {"learner", "num_examples", "degree", "link", "ambient_dim", "intrinsic_dim"}
    ]
    exact = part[part["metric"] == "exact_alignment"][[*keys, "value"]].rename(columns={"value": "exact"})
    return part[part["metric"] == "alignment"].merge(exact, on=keys)


def _coverage(summary: pd.DataFrame) -> Finding:
    both = _both(summary)
    inside = ((both["low"] <= both["exact"] + 1e-12) & (both["exact"] <= both["high"] + 1e-12)).sum()
    gap = (both["value"] - both["exact"]).abs()
    first = both.iloc[0]
    return Finding(
        f"The exact value lies within the simulated interval at {inside} of {len(both)} points "
        f"({basis(first)}; interval: {first['interval']}); the median gap is {gap.median():.2g}, the largest "
        f"{gap.max():.2g}.",
        "agrees" if inside >= 0.85 * len(both) else "undecided",
    )


def _findings(title: str, part: pd.DataFrame, absent: list[str]) -> list[Finding]:
    both = _both(part)
    last = both[both["num_examples"] == both["num_examples"].max()].set_index("learner")
    n = int(last["num_examples"].iloc[0])
    told = "; ".join(f"{name} {quantity(row)}, exactly {number(row['exact'])}" for name, row in last.iterrows())
    findings = [Finding(f"{title}: alignment of the degree-1 block at N = {n}: {told} ({basis(last.iloc[0])}).")]
    exact = part[part["metric"] == "exact_alignment"]
    if {"mamba", "linear"} <= set(exact["learner"]):
        mamba = exact[exact["learner"] == "mamba"].sort_values("num_examples")
        limit = mamba.iloc[-1]
        reached = mamba[mamba["value"].abs() >= 0.9]
        if abs(limit["value"]) < 1e-9:
            where = "is zero at every N: this link has no degree-1 signal, gated or not"
        elif len(reached):
            where = f"reaches 0.9 at N = {int(reached.iloc[0]['num_examples']):,}"
        else:
            held = number(limit["value"])
            where = f"does not reach 0.9 up to N = {int(limit['num_examples']):,}; decay holds it at {held}"
        findings.append(Finding(f"{title}: by the exact curve, the alignment of the Mamba gate {where}."))
    if absent:
        findings.append(
            Finding(f"{title}: {', '.join(absent)} is left out: its second moments are infinite for this link.")
        )
    return findings


def _rows(title: str, part: pd.DataFrame) -> list[list[str | float | int | None]]:
    both = _both(part)
    last = both[both["num_examples"] == both["num_examples"].max()]
    return [
        [title, r["learner"], int(r["degree"]), int(r["num_examples"]), quantity(r), number(r["exact"]), basis(r)]
        for _, r in last.iterrows()
    ]


def seconds(config: AlignmentConfig) -> float:
    """Rough CPU seconds of a cell."""
    total = max(config.num_examples) + sum(config.num_examples) * len(config.gates)
    return sampling_seconds(config.num_prompts, total, config.prompts.ambient_dim) + 0.2


KIND = ExperimentKind(AlignmentConfig, run_cell, seconds, read, check)
