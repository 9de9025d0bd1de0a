"""What alignments say: simulated over exact, where they differ by more than chance, and where the gate leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from iclab.claims.claim import ClaimResult
from iclab.claims.coverage import allowed_outside, has_light_tail, judge_coverage, widening
from iclab.claims.oh2025 import MOMENTS
from iclab.claims.rules import MIN_SEEDS
from iclab.experiments.sections.single_index import Gate, SingleIndexPrompts
from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Panel, Report, Table
from iclab.results.wording import basis, basis_of, interval_note, number, quantity, series
from iclab.studies.alignment.theory import moments_of

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

_ROUNDING = 1e-12
_FLAT = 0.01


def summarise(results: Results) -> Report:
    """Panels by grid point, and how often the exact value lies in the simulated interval."""
    import pandas as pd

    summary = results.summary
    points = grid_points(results, summary, swept_columns(results, own=("degree",)))
    titles = {id(point): point.title or f"link = {point.config['prompts']['link']}" for point in points}
    notes, rows, pairs = [], [], []
    panels: dict[int, list[Panel]] = {1: [], 2: []}
    for point in points:
        title = titles[id(point)]
        for degree in (1, 2):
            panels[degree].append(_panel(title, point.rows[point.rows["degree"] == degree], degree))
        both = paired(point)
        pairs.append(both.assign(point=title, tail=_tails(point, both)))
        absent = [name for name in point.config["gates"] if name not in set(point.rows["learner"])]
        notes.extend(_notes(title, point.rows[point.rows["degree"] == 1], both[both["degree"] == 1], absent))
        rows.extend(_rows(title, both))
    compared = pd.concat(pairs) if pairs else pd.DataFrame()
    simulated = summary[summary["metric"] == "alignment"]
    figures = []
    for degree in (1, 2):
        shown, left_out = capped(panels[degree], "summary.csv")
        caption = (
            f"E[S.u] / sqrt(E|S|^2) of the degree-{degree} block on the support, with u the direction "
            f"{'beta' if degree == 1 else 'beta beta'}: markers and bands simulated, lines exact. "
            f"{interval_note(simulated)}{left_out}"
        )
        figures.append(Figure(f"alignment-degree-{degree}", caption, shown))
    return Report(
        claims=coverage(compared),
        notes=notes,
        figures=figures,
        tables=[
            Table(
                "alignment",
                "Alignment at the largest simulated context length, beside the exact value.",
                ["prompts", "gate", "degree", "N", "simulated", "exact", "rests on"],
                rows,
            )
        ],
        methods=[
            "The bootstrap interval of a ratio is biased where the energy |S|^2 is heavy-tailed: rare prompts carry "
            "most of it, and a sample that lacks them overstates the alignment. The exact curve is then the better "
            "guide.",
        ],
    )


def paired(point: GridPoint) -> pd.DataFrame:
    """Simulated rows of one grid point with the exact value of the same gate, degree and length beside them."""
    keys = ["learner", "num_examples", "degree"]
    exact = point.rows[point.rows["metric"] == "exact_alignment"][[*keys, "value"]]
    return point.rows[point.rows["metric"] == "alignment"].merge(exact.rename(columns={"value": "exact"}), on=keys)


def _tails(point: GridPoint, both: pd.DataFrame) -> list[float]:
    """Theory's tail ratio of the energy behind each row."""
    from iclab.theory import tail_ratio

    prompts = SingleIndexPrompts(**point.config["prompts"])
    gates = {name: Gate(**section) for name, section in point.config["gates"].items()}
    moments = {name: moments_of(prompts, gates[name], 1) for name in dict.fromkeys(both["learner"])}
    found = []
    for name, n, degree in zip(both["learner"], both["num_examples"], both["degree"], strict=True):
        exact = moments[name]
        tail = float("inf") if exact is None else tail_ratio(exact.at(int(n)), prompts.intrinsic_dim, int(degree))
        found.append(tail)
    return found


def coverage(points: pd.DataFrame) -> list[ClaimResult]:
    """Judge how many exact values lie outside the simulated intervals; nothing where there are no points.

    ``points`` are rows of `paired`; a column ``point``, if there, names them, and a column ``tail`` has the tail ratio
    of the energy.
    """
    if points.empty:
        return []
    seen = _light(points)
    light, heavy = points[seen], points[~seen]
    outside = _outside(light)
    wider = light["num_seeds"].map(lambda seeds: widening(len(light), seeds) if seeds >= MIN_SEEDS else 1.0)
    remarks = [f"Left out of the count, since rare prompts carry their energy: {_named(heavy)}."] if len(heavy) else []
    if len(light):
        gap = (light["value"] - light["exact"]).abs()
        chance = f"95 % intervals, so up to {allowed_outside(len(light))} outside would be chance"
        remarks.insert(0, f"{chance}; the median gap is {gap.median():.2g}, the largest {gap.max():.2g}.")
        if outside.any():
            remarks.insert(1, f"Outside: {_named(light[outside])}.")
    found = judge_coverage(
        MOMENTS,
        len(light),
        int(outside.sum()),
        int(_outside(light, wider).sum()),
        num_seeds=int(points["num_seeds"].min()),
        num_prompts=int(points["num_prompts"].min()),
        remarks=remarks,
    )
    return [found]


def _light(points: pd.DataFrame) -> np.ndarray:
    """Of each point, whether its sample can see the energy."""
    if "tail" not in points:
        return np.ones(len(points), dtype=bool)
    pairs = zip(points["tail"], points["num_prompts"], strict=True)
    return np.array([has_light_tail(float(tail), int(prompts)) for tail, prompts in pairs])


def _outside(points: pd.DataFrame, widening: pd.Series | float = 1.0) -> pd.Series:
    """Whether the exact value lies outside the interval, each side of which is stretched by ``widening``."""
    low = points["value"] - widening * (points["value"] - points["low"])
    high = points["value"] + widening * (points["high"] - points["value"])
    return (points["exact"] < low - _ROUNDING) | (points["exact"] > high + _ROUNDING)


def _named(points: pd.DataFrame) -> str:
    named = [
        f"{r['point'] + ', ' if 'point' in r else ''}{r['learner']}, degree {int(r['degree'])}, "
        f"N = {int(r['num_examples'])}"
        for _, r in points.iloc[:3].iterrows()
    ]
    more = f"; and {len(points) - 3} more" if len(points) > 3 else ""
    return "; ".join(named) + more


def _panel(title: str, rows: pd.DataFrame, degree: int) -> Panel:
    curves = []
    for learner, group in rows.groupby("learner", sort=False):
        simulated = group[group["metric"] == "alignment"]
        if len(simulated):
            curves.append(series(simulated, "num_examples", str(learner), "model"))
        exact = group[group["metric"] == "exact_alignment"]
        curves.append(series(exact, "num_examples", f"{learner}, exact", "theory", str(learner)))
    lowest = min([-0.2, *(min(curve.low) for curve in curves if curve.low), *(min(c.y) for c in curves if c.y)])
    limits = (lowest - 0.05, 1.05)
    return Panel(title, "context examples N", f"alignment, degree {degree}", curves, "log2", y_limits=limits)


def _notes(title: str, part: pd.DataFrame, both: pd.DataFrame, absent: Sequence[str]) -> list[str]:
    notes = []
    if len(both):
        last = both[both["num_examples"] == both["num_examples"].max()].set_index("learner")
        n = int(last["num_examples"].iloc[0])
        shown = "; ".join(f"{name} {quantity(row)}, exactly {number(row['exact'])}" for name, row in last.iterrows())
        notes.append(f"{title}: alignment of the degree-1 block at N = {n}: {shown} ({basis_of(last)}).")
    exact = part[part["metric"] == "exact_alignment"]
    if {"mamba", "linear"} <= set(exact["learner"]):
        where = curve_end(exact[exact["learner"] == "mamba"])
        notes.append(f"{title}: by the exact curve, the alignment of the Mamba gate {where}.")
    if absent:
        notes.append(f"{title}: {', '.join(absent)} is left out: its second moments are infinite for this link.")
    return notes


def curve_end(curve: pd.DataFrame) -> str:
    """In words, where an exact curve gets to: 0.9, a plateau, or neither within the lengths computed. A plateau is a
    last octave in which it changes by less than 1 %."""
    curve = curve.sort_values("num_examples")
    limit = curve.iloc[-1]
    value, n = float(limit["value"]), int(limit["num_examples"])
    if curve["value"].abs().max() < 1e-9:
        return "is zero at every N: this link has no degree-1 signal, gated or not"
    reached = curve[curve["value"].abs() >= 0.9]
    if len(reached):
        first = int(reached.iloc[0]["num_examples"])
        if first == curve.iloc[0]["num_examples"]:
            return f"is at 0.9 already at N = {first:,}, the shortest computed"
        before = int(curve[curve["num_examples"] < first]["num_examples"].iloc[-1])
        return f"reaches 0.9 between N = {before:,} and {first:,}"
    beyond = f"does not reach 0.9 up to N = {n:,}"
    octave = curve[curve["num_examples"] >= n / 2]["value"]
    if len(octave) > 1 and octave.max() - octave.min() <= _FLAT * abs(value):
        return f"{beyond}; decay holds it at {number(value)}"
    return f"{beyond}, where it is {number(value)} and still changing"


def _rows(title: str, both: pd.DataFrame) -> list[list[str | float | int | None]]:
    last = both[both["num_examples"] == both["num_examples"].max()]
    return [
        [title, r["learner"], int(r["degree"]), int(r["num_examples"]), quantity(r), number(r["exact"]), basis(r)]
        for _, r in last.iterrows()
    ]
