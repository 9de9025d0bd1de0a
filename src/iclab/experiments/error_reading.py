"""What error curves say: figures, scaling in the dimensions, and paired comparisons in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iclab.experiments.reading import Figure, Finding, Panel, Reading, Role, Series, Table
from iclab.experiments.series import basis, present, quantity, series, text

if TYPE_CHECKING:
    import pandas as pd

    from iclab.runs.results import Results

_SHORT = {"ambient_dim": "d", "intrinsic_dim": "r", "link": "link", "noise": "noise"}
_TARGETS = (0.7, 0.5)


def read(results: Results) -> Reading:
    """Error against N for every place of the grid, then scaling in r and d."""
    summary = results.summary
    errors = summary[summary["metric"] == "squared_error"]
    places = present(errors, *_SHORT)
    roles = _roles(results)
    panels, findings, rows = [], [], []
    for place, part in _groups(errors, places):
        title = ", ".join(f"{_SHORT[c]} = {text(v)}" for c, v in zip(places, place, strict=True))
        curves = [
            series(rows_of, "num_examples", str(name), roles.get(str(name), "theory"))
            for name, rows_of in part.groupby("learner", sort=False)
        ]
        panels.append(
            Panel(
                title,
                "context examples N",
                "squared error / label variance",
                curves,
                "log2",
                vertical=[(float(n), "N_pt") for n in _pretraining_lengths(results)],
                horizontal=[(1.0, "zero predictor")],
                y_limits=(0.0, 1.6),
            )
        )
        findings.extend(_comparisons(results, title, dict(zip(places, place, strict=True)), part))
        rows.extend(_rows(title, part))
    figures = [
        Figure(
            "error",
            "Squared error against the clean target, divided by the label variance, on the same prompts for "
            "every learner. "
            "Curves that leave the panel upwards are above 1.6.",
            panels,
        )
    ]
    scaling_figures, scaling_findings = _scaling(errors, roles)
    return Reading(
        findings=[*findings, *scaling_findings],
        figures=figures + scaling_figures,
        tables=[
            Table(
                "error",
                "Squared error divided by the label variance, with its interval.",
                ["prompts", "learner", "N", "squared error", "rests on"],
                rows,
            ),
            *_recovery_table(summary, places),
        ],
        notes=[
            "Errors are against the clean target; results.csv also holds absolute errors and errors against "
            "noisy labels.",
            "The exact curve is what a fixed readout of <S_1, x> on the support would reach if the state were "
            "Gaussian, "
            "from the exact alignment of the gate. It describes the mechanism and is no bound: a prompt's |S_1| "
            "tells how "
            "well its direction is known, and a model may use that.",
            "The oracle is told the support and the link and reads the direction of S_1 in the best possible way, "
            "calibrated on tasks of its own stream.",
        ],
    )


def _groups(frame: pd.DataFrame, places: list[str]) -> list[tuple[tuple, pd.DataFrame]]:
    if not places:
        return [((), frame)]
    grouped = frame.groupby(places, sort=False, dropna=False)
    return [(place if isinstance(place, tuple) else (place,), part) for place, part in grouped]


def _roles(results: Results) -> dict[str, Role]:
    sections = results.experiment["config"]["learners"]
    return {section["label"] or name: section["role"] for name, section in sections.items()}


def _pretraining_lengths(results: Results) -> list[int]:
    """The context lengths that models were pretrained at, each once."""
    sections = results.experiment["config"]["learners"].values()
    return sorted({s["pretraining"]["num_examples"] for s in sections if "pretraining" in s})


def _comparisons(results: Results, title: str, place: dict, part: pd.DataFrame) -> list[Finding]:
    """Each model against each ablation and baseline, paired, at the longest context that both reach."""
    roles = _roles(results)
    models = [name for name in part["learner"].unique() if roles.get(name) == "model"]
    rivals = [name for name in part["learner"].unique() if roles.get(name) in ("ablation", "baseline")]
    prefix = f"{title}: " if title else ""
    findings = []
    for model in models[:1]:
        for rival in rivals:
            shared = set(part[part["learner"] == model]["num_examples"]) & set(
                part[part["learner"] == rival]["num_examples"]
            )
            if not shared:
                continue
            n = int(max(shared))
            at_n = part[part["num_examples"] == n].set_index("learner")
            gap = results.difference(model, rival, "squared_error", num_examples=n, **place)
            if gap.low > 0:
                relation = "is worse than"
            elif gap.high < 0:
                relation = "is better than"
            else:
                relation = "cannot be told from"
            findings.append(
                Finding(
                    f"{prefix}at N = {n}, {model} {relation} {rival}: squared error {quantity(at_n.loc[model])} "
                    "against "
                    f"{quantity(at_n.loc[rival])}; paired difference {gap.value:.3g} ({gap.low:.3g} to {gap.high:.3g}; "
                    f"{basis(at_n.loc[model])})."
                )
            )
    findings.extend(_gate_claims(prefix, part, roles))
    return findings


def _gate_claims(prefix: str, part: pd.DataFrame, roles: dict[str, Role]) -> list[Finding]:
    """Claim of arXiv 2510.12026: with ge < ie, the gated model learns in context and its ungated twin does not."""
    findings = []
    ablated = [name for name in part["learner"].unique() if roles.get(name) == "ablation" and "no gate" in name]
    models = [name for name in part["learner"].unique() if roles.get(name) == "model"]
    for twin in ablated[:1]:
        for model in models[:1]:
            gated = part[part["learner"] == model].sort_values("num_examples").iloc[-1]
            ungated = part[part["learner"] == twin].sort_values("num_examples").iloc[-1]
            learns, blind = gated["high"] < 0.9, ungated["low"] > 0.9
            verdict = "agrees" if learns and blind else "disagrees" if gated["low"] > 0.9 and blind else "undecided"
            findings.append(
                Finding(
                    f"{prefix}claim 'the gate makes the model learn in context': at N = "
                    f"{int(gated['num_examples'])} the "
                    f"gated model's squared error is {quantity(gated)}, its ungated twin's {quantity(ungated)}; "
                    "predicting "
                    "zero gives 1.",
                    verdict,
                )
            )
    return findings


def _rows(title: str, part: pd.DataFrame) -> list[list[str | float | int | None]]:
    lengths = sorted(part["num_examples"].unique())
    chosen = {lengths[len(lengths) // 2], lengths[-1]}
    shown = part[part["num_examples"].isin(chosen)]
    return [
        [
            title,
            str(r["learner"]),
            int(r["num_examples"]),
            quantity(r),
            "exact" if r["interval"] == "exact" else basis(r),
        ]
        for _, r in shown.iterrows()
    ]


def _recovery_table(summary: pd.DataFrame, places: list[str]) -> list[Table]:
    recovered = summary[summary["metric"] == "support_auc"]
    if recovered.empty:
        return []
    rows = [
        [", ".join(f"{_SHORT[c]} = {text(r[c])}" for c in places), str(r["learner"]), quantity(r), int(r["num_seeds"])]
        for _, r in recovered.iterrows()
    ]
    caption = "Area under the ROC curve of |gamma| on the degree-1 coordinates: does pretraining find the support?"
    return [Table("support", caption, ["prompts", "learner", "area under ROC", "seeds"], rows)]


def _scaling(errors: pd.DataFrame, roles: dict[str, Role]) -> tuple[list[Figure], list[Finding]]:
    """Examples that reach an error, against r at each d and against d at each r."""
    figures, findings = [], []
    for axis, other in (("intrinsic_dim", "ambient_dim"), ("ambient_dim", "intrinsic_dim")):
        if axis not in errors.columns or errors[axis].nunique() < 2:
            continue
        panels = []
        for target in _TARGETS:
            others = list(errors[other].unique()) if other in errors.columns else [None]
            for value in others:
                part = errors if value is None else errors[errors[other] == value]
                curves = []
                for name, rows in part.groupby("learner", sort=False):
                    reached = _reach_curve(rows, axis, target)
                    role = roles.get(str(name), "theory")
                    x = sorted(reached)
                    means = [float(np.mean(reached[v])) for v in x]
                    if not np.isfinite(means).any():
                        continue
                    curves.append(Series(str(name), list(map(float, x)), means, role=role))
                    findings.extend(_slope_finding(str(name), axis, other, value, target, reached, role))
                where = "" if value is None else f", {_SHORT[other]} = {text(value)}"
                panels.append(
                    Panel(
                        f"N that reaches error {target:g}{where}",
                        _SHORT[axis],
                        "context examples N",
                        curves,
                        "log2",
                        "log2",
                    )
                )
        figures.append(
            Figure(
                f"scaling-{_SHORT[axis]}",
                f"Examples needed to reach a squared error, against {_SHORT[axis]}. A point is missing where a "
                "learner does "
                "not get there within the lengths measured.",
                panels,
            )
        )
    return figures, findings


def _reach_curve(rows: pd.DataFrame, axis: str, target: float) -> dict[float, list[float]]:
    """For each value of the axis, the N that reaches the target for each seed (NaN where it is never reached)."""
    from iclab.evaluation import examples_to_reach

    reached = {}
    for value, part in rows.groupby(axis, sort=True):
        ordered = part.sort_values("num_examples")
        curves = np.array(ordered["seed_values"].tolist()).T
        reached[float(str(value))] = [examples_to_reach(list(ordered["num_examples"]), list(c), target) for c in curves]
    return reached


def _slope_finding(
    name: str, axis: str, other: str, value: object, target: float, reached: dict[float, list[float]], role: Role
) -> list[Finding]:
    from iclab.evaluation import scaling_slope

    if role not in ("model", "theory") or target != _TARGETS[-1]:
        return []
    usable = {v: seeds for v, seeds in reached.items() if np.isfinite(seeds).all()}
    where = "" if value is None else f" at {_SHORT[other]} = {text(value)}"
    if len(usable) < 2:
        if role == "theory":
            return []
        return [
            Finding(
                f"{name}{where}: error {target:g} is reached by all seeds at {len(usable)} of {len(reached)} values of "
                f"{_SHORT[axis]}, too few for a slope.",
                "undecided",
            )
        ]
    x = sorted(usable)
    slope = scaling_slope(x, np.array([usable[v] for v in x]).T)
    ends = (
        f" ({slope.low:.2g} to {slope.high:.2g}, {slope.kind})"
        if np.isfinite(slope.low)
        else " (no interval: two points)"
    )
    if len(usable[x[0]]) == 1:
        ends = " (exact curve)" if role == "theory" else ends
    claim = "r^ge" if axis == "intrinsic_dim" else "no dependence on d"
    return [
        Finding(
            f"{name}{where}: the N that reaches error {target:g} grows like "
            f"{_SHORT[axis]}^{slope.slope:.2g}{ends} over "
            f"{_SHORT[axis]} = {', '.join(text(v) for v in x)}; the paper's claim is {claim} up to constants."
        )
    ]
