"""How the steps to a level of the loss scale: the claims of arXiv 2510.00399 beside the slopes that were measured.

Claimed: ``T_M ~ M1 / (eta (1 - p_a) beta^2)`` steps for Mamba and ``T_T = T_M / l_tr`` for the linear Transformer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from iclab.claims.claim import Claim, ClaimResult, Estimate
from iclab.claims.li2025 import SLOPES
from iclab.claims.rules import judge
from iclab.claims.wording import estimate_text
from iclab.experiments.sections.outliers import AttentionLearner
from iclab.results.crossing_words import BOUNDS_IN_FIGURES, bound_text, crossing_series
from iclab.results.grid_points import GridPoint, capped
from iclab.results.page import Figure, Panel, Report, Series, Table
from iclab.results.wording import basis, by_learner, interval_note, number, plural, quantity, series
from iclab.studies.outliers.error.conditions import training_covered
from iclab.studies.outliers.training.points import crossing_from
from iclab.studies.outliers.training.step_ratios import step_ratios

if TYPE_CHECKING:
    import pandas as pd

    from iclab.evaluation import CrossingSlope

_AXES = {
    "num_examples": "context length in training, l_tr",
    "outlier_fraction": "1 / (1 - p_a)",
    "relevant": "relevant patterns, M1",
}
_SHORT = {"num_examples": "l_tr", "outlier_fraction": "1/(1 - p_a)", "relevant": "M1"}


def convergence(points: list[GridPoint]) -> Report:
    """Claims, figures and tables where something is varied."""
    claims: list[ClaimResult] = []
    notes: list[str] = []
    panels: list[Panel] = []
    slopes: list[list[str | float | int | None]] = []
    steps: list[list[str | float | int | None]] = []
    for point in points:
        learners = {s.name: s for s in (AttentionLearner(**c) for c in point.config["learners"].values())}
        taken = _taken(point.rows, learners)
        for axis in (a for a in _AXES if a in set(taken["axis"])):
            for level in sorted(taken["loss_level"].unique(), reverse=True):
                rows = taken[(taken["axis"] == axis) & (taken["loss_level"] == level)]
                if axis == "num_examples" and level == max(taken["loss_level"]):
                    notes.extend(step_ratios(point.prefix, level, rows, learners))
                panels.append(_panel(point, axis, level, rows, learners))
                for name, of_learner in by_learner(rows, learners):
                    claimed = claim(point, learners[name], axis)
                    found = _slope(of_learner)
                    judged = None if claimed is None else _judge(claimed, point, name, level, found, of_learner)
                    slopes.append(_slope_row(point, axis, name, level, found, judged))
                    if level == max(taken["loss_level"]) and judged is not None:
                        claims.append(judged)
                    steps.extend(_step_rows(point, axis, level, of_learner, learners[name]))
    shown, left_out = capped(panels, "the table 'steps'")
    measured = points[0].rows[points[0].rows["metric"] == "steps_to_level"]
    figure = Figure(
        "steps",
        "Steps of SGD until the loss is at a level for the first time, at the configured step sizes. Lines without "
        f"markers have the claimed slope, through the middle of the points. {BOUNDS_IN_FIGURES} "
        f"{interval_note(measured)}{left_out}",
        shown,
    )
    tables = [
        Table(
            "slopes",
            "Slope of log steps, with Student's interval over seeds, beside the claim.",
            ["prompts", "against", "learner", "level", "slope", "claimed", "outcome", "points", "left out"],
            slopes,
        ),
        Table(
            "steps",
            "Steps, prompts and context examples seen until the loss is at the level.",
            ["prompts", "varied", "value", "learner", "level", "steps", "prompts seen", "examples seen", "rests on"],
            steps,
        ),
    ]
    method = (
        "The claims are orders of magnitude for large sizes, and these slopes come from a few values "
        "each: they describe these sizes. The claims are about one layer, one step size and the theorems' "
        "training distributions; elsewhere there is a slope and no verdict. "
        "Steps are interpolated between the middles of windows of log_every steps. Where the first window of a seed is "
        "at the level already, its middle is an upper bound; where a seed never gets there, the steps taken are a "
        "lower bound. Such points are left out of slopes and ratios and named in the tables."
    )
    return Report(claims, notes, [figure], tables, [method])


def claim(point: GridPoint, learner: AttentionLearner, axis: str) -> Claim | None:
    """The claim about the slope of a learner; ``None`` for softmax attention, for stacks, for a gate with a step size
    of its own, and where the theorems are not about its training."""
    steps = learner.training
    alone = learner.kind == "gated" and steps.gate_learning_rate != steps.learning_rate
    if learner.depth > 1 or alone or not training_covered(point.config["prompts"], learner):
        return None
    return SLOPES.get(learner.kind, {}).get(axis)


def _taken(rows: pd.DataFrame, learners: dict[str, AttentionLearner]) -> pd.DataFrame:
    """Steps to each level with the abscissa ``x``, the ``crossings`` of the seeds, and whether all of these were
    measured (``usable``)."""
    import pandas as pd

    keys = ["learner", "axis", "at", "loss_level"]
    reached = rows[rows["metric"] == "reached"][[*keys, "seed_values"]].rename(columns={"seed_values": "reached"})
    taken = rows[rows["metric"] == "steps_to_level"].merge(reached, on=keys)
    share = taken["axis"] == "outlier_fraction"
    crossings = [
        [crossing_from(float(s), float(r), learners[name].training) for s, r in zip(steps, there, strict=True)]
        for name, steps, there in zip(taken["learner"], taken["seed_values"], taken["reached"], strict=True)
    ]
    return taken.assign(
        crossings=pd.Series(crossings, index=taken.index, dtype=object),
        usable=[all(c.measured for c in seeds) for seeds in crossings],
        x=taken["at"].where(~share, 1 / (1 - taken["at"].where(share, 0.0))),
    )


def _slope(rows: pd.DataFrame) -> CrossingSlope | None:
    """``None`` where the values have different numbers of seeds, as in a run that is not finished."""
    from iclab.evaluation import crossing_slope

    ordered = rows.sort_values("x")
    if ordered["num_seeds"].nunique() > 1:
        return None
    return crossing_slope(list(ordered["x"]), list(zip(*ordered["crossings"], strict=True)))


def _panel(
    point: GridPoint, axis: str, level: float, rows: pd.DataFrame, learners: dict[str, AttentionLearner]
) -> Panel:
    curves: list[Series] = []
    for name, of_learner in by_learner(rows, learners):
        usable = of_learner[of_learner["usable"]].sort_values("x")
        if len(usable):
            curves.append(series(usable, "x", name, learners[name].role))
        bounds = of_learner[~of_learner["usable"]].sort_values("x")
        by_x = {float(x): dict(enumerate(seeds)) for x, seeds in zip(bounds["x"], bounds["crossings"], strict=True)}
        shown = crossing_series(by_x, name, learners[name].role)
        curves.extend([] if shown is None else [shown])
        claimed = claim(point, learners[name], axis)
        if claimed is not None and len(usable) > 1:
            x = usable["x"].to_numpy(float)
            power = claimed.threshold
            middle = np.exp(np.log(usable["value"]).mean() - power * np.log(x).mean())
            label = f"{name}, claimed slope"
            curves.append(Series(label, list(x), list(middle * x**power), role="theory", like=name))
    title = f"loss {number(level)}, against {_SHORT[axis]}"
    title = f"{point.title}, {title}" if point.title else title
    return Panel(title, _AXES[axis], "steps", curves, x_scale="log", y_scale="log")


def _judge(
    claimed: Claim, point: GridPoint, name: str, level: float, found: CrossingSlope | None, rows: pd.DataFrame
) -> ClaimResult:
    remarks = [f"Steps to a loss of {number(level)}."]
    estimates = []
    if found is None:
        remarks.append("The values have different numbers of seeds, so there is no slope.")
    elif found.slope is None:
        remarks.append("At fewer than two values every seed got there, and none in its first window.")
    else:
        estimates = [replace(Estimate.of_slope(found.slope, found.num_seeds), prompts=int(rows["num_prompts"].min()))]
        remarks.append(f"Over {found.slope.num_points} values.")
    if found is not None and found.left_out:
        remarks.append(f"Left out: {bound_text(found)}.")
    return judge(claimed, estimates, subject=name, at=point.title, settings=point.key, remarks=remarks)


def _slope_row(
    point: GridPoint, axis: str, name: str, level: float, found: CrossingSlope | None, judged: ClaimResult | None
) -> list[str | float | int | None]:
    slope = None if found is None else found.slope
    shown = "none" if slope is None else estimate_text(Estimate.of_slope(slope, 1))
    values = 0 if slope is None else slope.num_points
    claimed = "none" if judged is None else f"{judged.claim.threshold:g}"
    verdict = "not applicable" if judged is None else judged.verdict
    left_out = bound_text(found) if found else ""
    return [point.title, _SHORT[axis], name, level, shown, claimed, verdict, values, left_out]


def _step_rows(
    point: GridPoint, axis: str, level: float, rows: pd.DataFrame, learner: AttentionLearner
) -> list[list[str | float | int | None]]:
    batch = learner.training.batch_size
    rows_shown: list[list[str | float | int | None]] = []
    for _, row in rows.sort_values("at").iterrows():
        length = int(row["at"]) if axis == "num_examples" else learner.training.num_examples
        start = [point.title, axis, float(row["at"]), str(row["learner"]), level]
        if not row["usable"]:
            rows_shown.append([*start, _bound(row), "", "", basis(row)])
            continue
        seen = row["value"] * batch
        rows_shown.append([*start, quantity(row), number(seen), number(seen * length), basis(row)])
    return rows_shown


def _bound(row: pd.Series) -> str:
    """``<= 250 (1 of 5 seeds in the first window)``, ``> 8000 (2 of 5 seeds did not get there)``."""
    from iclab.evaluation import mean_crossing

    states = [crossing.state for crossing in row["crossings"]]
    seeds = plural(len(states), "seed")
    reasons = [
        f"{states.count(state)} of {seeds} {why}"
        for state, why in (("left", "in the first window"), ("right", "did not get there"))
        if state in states
    ]
    mean = mean_crossing(row["crossings"])
    return f"{mean or 'bounds on both sides'} ({'; '.join(reasons)})"
