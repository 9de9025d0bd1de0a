"""How the steps to a level of the loss scale: the claims of arXiv 2510.00399 beside the slopes that were measured.

Claimed: ``T_M ~ M1 / (eta (1 - p_a) beta^2)`` steps for Mamba and ``T_T = T_M / l_tr`` for the linear Transformer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iclab.experiments.outlier_conditions import training_covered
from iclab.experiments.outlier_sections import AttentionLearner
from iclab.experiments.outlier_step_ratios import step_ratios
from iclab.experiments.outlier_training_points import first_middle
from iclab.experiments.places import Place, capped
from iclab.experiments.reading import Figure, Finding, Panel, Series, Table, Verdict
from iclab.experiments.series import basis, by_learner, interval_note, number, quantity, series

if TYPE_CHECKING:
    import pandas as pd

    from iclab.evaluation import Slope

_AXES = {
    "num_examples": "context length in training, l_tr",
    "outlier_fraction": "1 / (1 - p_a)",
    "relevant": "relevant patterns, M1",
}
_SHORT = {"num_examples": "l_tr", "outlier_fraction": "1/(1 - p_a)", "relevant": "M1"}
CLAIMED = {
    "gated": {"num_examples": 0.0, "outlier_fraction": 1.0, "relevant": 1.0},
    "linear": {"num_examples": -1.0, "outlier_fraction": 1.0, "relevant": 1.0},
}
"""Slopes of log steps in log of the abscissa, by kind of learner; of one layer, as are the theorems."""
_MIN_SEEDS = 5
_TOLERANCE = 0.25
"""Of a slope: claims are orders of magnitude, which bend a slope of a few values; it is a factor 1.8 over a decade."""


def convergence(places: list[Place]) -> tuple[list[Finding], list[Figure], list[Table], list[str]]:
    """Findings, figures, tables and notes where something is varied."""
    findings: list[Finding] = []
    panels: list[Panel] = []
    slopes: list[list[str | float | int | None]] = []
    steps: list[list[str | float | int | None]] = []
    for place in places:
        learners = {s.name: s for s in (AttentionLearner(**c) for c in place.config["learners"].values())}
        taken = _taken(place.rows, learners)
        for axis in (a for a in _AXES if a in set(taken["axis"])):
            for level in sorted(taken["loss_level"].unique(), reverse=True):
                rows = taken[(taken["axis"] == axis) & (taken["loss_level"] == level)]
                if axis == "num_examples" and level == max(taken["loss_level"]):
                    findings.extend(step_ratios(place.prefix, level, rows, learners))
                panels.append(_panel(place, axis, level, rows, learners))
                for name, of_learner in by_learner(rows, learners):
                    claimed = claim(place, learners[name], axis)
                    slope = _slope(of_learner)
                    slopes.append(_slope_row(place, axis, name, level, slope, claimed, of_learner))
                    if level == max(taken["loss_level"]) and claimed is not None:
                        findings.append(_finding(place, axis, name, level, slope, claimed, of_learner))
                    steps.extend(_step_rows(place, axis, level, of_learner, learners[name]))
    shown, left_out = capped(panels, "the table 'steps'")
    measured = places[0].rows[places[0].rows["metric"] == "steps_to_level"]
    figure = Figure(
        "steps",
        "Steps of SGD until the loss is at a level for the first time, at the configured step sizes. Lines without "
        f"markers have the claimed slope, through the middle of the points. {interval_note(measured)}{left_out}",
        shown,
    )
    tables = [
        Table(
            "slopes",
            "Slope of log steps, with Student's interval over seeds, beside the claim.",
            ["prompts", "against", "learner", "level", "slope", "claimed", "outcome", "points"],
            slopes,
        ),
        Table(
            "steps",
            "Steps, prompts and context examples seen until the loss is at the level.",
            ["prompts", "varied", "value", "learner", "level", "steps", "prompts seen", "examples seen", "rests on"],
            steps,
        ),
    ]
    note = (
        f"How the verdict is reached: a slope agrees where its whole 95 % interval lies within {_TOLERANCE:g} of the "
        "claimed one, disagrees where all of it lies farther off, and is undecided otherwise; below 5 seeds there is "
        "no verdict. The claims are orders of magnitude for large sizes, and these slopes come from a few values "
        "each: they describe these sizes. The claims are about one layer, one step size and the theorems' training "
        "laws; elsewhere there is a slope and no verdict. "
        "Points that a seed did not reach within its steps are left out of slopes and ratios and named in the table. "
        "Steps are interpolated between the middles of windows of log_every steps; where the first window of a seed "
        "is at the level already, its middle is an upper bound, and the point is left out and named likewise."
    )
    return findings, [figure], tables, [note]


def claim(place: Place, learner: AttentionLearner, axis: str) -> float | None:
    """The slope that is claimed of a learner; ``None`` for softmax attention, for stacks, for a gate with a step size
    of its own, and where the theorems are not about its training."""
    steps = learner.training
    alone = learner.kind == "gated" and steps.gate_learning_rate != steps.learning_rate
    if learner.depth > 1 or alone or not training_covered(place.config["prompts"], learner):
        return None
    return CLAIMED.get(learner.kind, {}).get(axis)


def _taken(rows: pd.DataFrame, learners: dict[str, AttentionLearner]) -> pd.DataFrame:
    """Steps to each level with the abscissa ``x``; the share of seeds that ``reached`` it; how many were there
    ``early``, in their first window, so that their steps are an upper bound; and whether the point is ``usable``."""
    keys = ["learner", "axis", "at", "loss_level"]
    reached = rows[rows["metric"] == "reached"][[*keys, "value"]].rename(columns={"value": "reached"})
    taken = rows[rows["metric"] == "steps_to_level"].merge(reached, on=keys)
    share = taken["axis"] == "outlier_fraction"
    early = [
        int((np.asarray(values) <= first_middle(learners[name].training)).sum())
        for name, values in zip(taken["learner"], taken["seed_values"], strict=True)
    ]
    taken = taken.assign(early=early)
    taken["usable"] = (taken["reached"] == 1) & (taken["early"] == 0)
    return taken.assign(x=taken["at"].where(~share, 1 / (1 - taken["at"].where(share, 0.0))))


def _slope(rows: pd.DataFrame) -> Slope | None:
    """Of the usable points; ``None`` where they are fewer than two."""
    from iclab.evaluation import scaling_slope

    usable = rows[rows["usable"]].sort_values("x")
    if usable["x"].nunique() < 2 or usable["num_seeds"].nunique() > 1:
        return None
    return scaling_slope(list(usable["x"]), np.array(usable["seed_values"].tolist()).T)


def _panel(place: Place, axis: str, level: float, rows: pd.DataFrame, learners: dict[str, AttentionLearner]) -> Panel:
    curves: list[Series] = []
    for name, of_learner in by_learner(rows, learners):
        usable = of_learner[of_learner["usable"]].sort_values("x")
        if usable.empty:
            continue
        curves.append(series(usable, "x", name, learners[name].role))
        claimed = claim(place, learners[name], axis)
        if claimed is not None and len(usable) > 1:
            x = usable["x"].to_numpy(float)
            middle = np.exp(np.log(usable["value"]).mean() - claimed * np.log(x).mean())
            label = f"{name}, claimed slope"
            curves.append(Series(label, list(x), list(middle * x**claimed), role="theory", like=name))
    title = f"loss {number(level)}, against {_SHORT[axis]}"
    title = f"{place.title}, {title}" if place.title else title
    return Panel(title, _AXES[axis], "steps", curves, x_scale="log", y_scale="log")


def _outcome(slope: Slope | None, claimed: float | None) -> Verdict:
    if slope is None or claimed is None or slope.kind != "seeds":
        return "information"
    if max(claimed - slope.low, slope.high - claimed) <= _TOLERANCE:
        return "agrees"
    far = slope.low > claimed + _TOLERANCE or slope.high < claimed - _TOLERANCE
    return "disagrees" if far else "undecided"


def _judged(rows: pd.DataFrame) -> bool:
    return bool((rows["num_seeds"] >= _MIN_SEEDS).all())


def _finding(
    place: Place, axis: str, name: str, level: float, slope: Slope | None, claimed: float, rows: pd.DataFrame
) -> Finding:
    what = f"{place.prefix}{name}, steps to a loss of {number(level)} against {_SHORT[axis]}"
    if slope is None:
        return Finding(
            f"{what}: fewer than two values at which every seed got there, and none in its first window, so there is "
            "no slope."
        )
    verdict = _outcome(slope, claimed) if _judged(rows) else "information"
    tail = "" if _judged(rows) else " Fewer than 5 seeds: no verdict."
    return Finding(
        f"{what}: slope {_told(slope)} over {slope.num_points} values; claimed {claimed:g} "
        f"({basis(rows.iloc[0])}).{tail}",
        verdict,
    )


def _told(slope: Slope) -> str:
    if not np.isfinite(slope.low):
        return number(slope.slope)
    return f"{number(slope.slope)} ({number(slope.low)} to {number(slope.high)})"


def _slope_row(
    place: Place, axis: str, name: str, level: float, slope: Slope | None, claimed: float | None, rows: pd.DataFrame
) -> list[str | float | int | None]:
    outcome = _outcome(slope, claimed) if _judged(rows) else "information"
    told = "none" if slope is None else _told(slope)
    points = 0 if slope is None else slope.num_points
    shown = "no verdict" if outcome == "information" else outcome
    return [place.title, _SHORT[axis], name, level, told, "none" if claimed is None else f"{claimed:g}", shown, points]


def _step_rows(
    place: Place, axis: str, level: float, rows: pd.DataFrame, learner: AttentionLearner
) -> list[list[str | float | int | None]]:
    batch = learner.training.batch_size
    told: list[list[str | float | int | None]] = []
    for _, row in rows.sort_values("at").iterrows():
        length = int(row["at"]) if axis == "num_examples" else learner.training.num_examples
        start = [place.title, axis, float(row["at"]), str(row["learner"]), level]
        if row["reached"] < 1:
            missed = round((1 - row["reached"]) * row["num_seeds"])
            told.append([*start, f"not reached by {missed} of {int(row['num_seeds'])} seeds", "", "", basis(row)])
            continue
        if row["early"]:
            count = f"{int(row['early'])} of {int(row['num_seeds'])} seeds"
            told.append([*start, f"at most {number(row['value'])}: {count} in the first window", "", "", basis(row)])
            continue
        seen = row["value"] * batch
        told.append([*start, quantity(row), number(seen), number(seen * length), basis(row)])
    return told
