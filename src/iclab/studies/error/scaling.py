"""Scaling of error curves: the context length that reaches an error, against the dimensions of the prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from iclab.claims.rules import SLOPE_RULE, Judgement, judge_slope
from iclab.experiments.roles import Role
from iclab.results.crossing_words import (
    BOUNDS_IN_FIGURES,
    bound_text,
    crossing_series,
    crossings_text,
    slope_of,
    slope_text,
)
from iclab.results.grid_points import SHORT_NAMES, GridPoint, capped, column_of, grid_points
from iclab.results.page import Figure, Finding, Panel, Table
from iclab.results.wording import by_learner, span, text
from iclab.studies.error.names import ZERO

if TYPE_CHECKING:
    import pandas as pd

    from iclab.evaluation import CrossingSlope, Slope
    from iclab.results.crossing_words import Reached
    from iclab.results.results import Results

TARGETS = (0.7, 0.5)
_AXES = ("intrinsic_dim", "ambient_dim")
_FLAT = 0.25
_CLAIMS = {"intrinsic_dim": "growth like r^ge", "ambient_dim": "no dependence on d"}


def scaling(
    results: Results, columns: Sequence[str], roles: Mapping[str, Role]
) -> tuple[list[Figure], list[Table], list[Finding]]:
    """Examples that reach an error, against r and against d, at each place of all other swept ``columns``; empty where
    the grid has one value."""
    errors = results.per_seed[results.per_seed["metric"] == "squared_error"]
    figures, rows, findings = [], [], []
    for dimension in _AXES:
        axis = column_of(results, f"prompts.{dimension}")
        if axis is None or errors[axis].nunique() < 2:
            continue
        short = SHORT_NAMES[dimension]
        panels = []
        points = grid_points(results, errors, [column for column in columns if column != axis])
        for target in TARGETS:
            for point in points:
                curves = []
                for name, learner_rows in by_learner(point.rows, roles):
                    if name == ZERO or learner_rows[axis].nunique() < 2:
                        continue
                    role = roles.get(name, "theory")
                    reached = _reached(learner_rows, axis, target)
                    curve = crossing_series(reached, name, role)
                    curves.extend([] if curve is None else [curve])
                    slope = slope_of(reached, exact=role == "theory")
                    rows.append(
                        [point.title, short, f"{target:g}", name, *_slope_cells(slope), crossings_text(reached)]
                    )
                    if role == "model" and target == TARGETS[-1]:
                        findings.append(_finding(name, dimension, point, target, slope, reached))
                title = f"N that reaches error {target:g}" + (f", {point.title}" if point.title else "")
                panels.append(Panel(title, short, "context examples N", curves, "log2", "log2"))
        panels, left_out = capped(panels, "the table 'scaling'")
        caption = (
            f"Examples needed to reach a squared error, against {short}: mean over {_seeds(errors)}, no intervals. "
            f"{BOUNDS_IN_FIGURES}"
        )
        figures.append(Figure(f"scaling-{short}", caption + left_out, panels))
    tables = []
    if rows:
        caption = (
            "Exponents of the context length that reaches an error: slopes on log-log axes over the values of the axis "
            "at which every seed gets there within the measured lengths, and not at the first of them; with 95 % "
            "intervals (Student, over seeds; of the regression for one curve). They describe these sizes. "
            f"N: mean over seeds; <= and > are bounds, with the number of seeds that make them. {SLOPE_RULE}"
        )
        columns = ["at", "axis", "error", "learner", "exponent", "values used", "left out", "N by value"]
        tables.append(Table("scaling", caption, columns, rows))
    return figures, tables, findings


def _seeds(errors: pd.DataFrame) -> str:
    return span([errors["seed"].nunique()], "seed")


def _reached(rows: pd.DataFrame, axis: str, target: float) -> Reached:
    from iclab.evaluation import examples_to_reach

    return {
        float(str(value)): {
            int(str(seed)): examples_to_reach(list(curve["num_examples"]), list(curve["value"]), target)
            for seed, curve in part.sort_values("num_examples").groupby("seed", sort=True)
        }
        for value, part in rows.groupby(axis, sort=True)
    }


def _slope_cells(found: CrossingSlope | None) -> list[str]:
    if found is None:
        return ["no seed in common", "", ""]
    exponent = "too few points" if found.slope is None else slope_text(found.slope)
    return [exponent, ", ".join(map(text, found.used)), bound_text(found)]


def _finding(
    name: str, dimension: str, point: GridPoint, target: float, found: CrossingSlope | None, reached: Reached
) -> Finding:
    at = f" at {point.title}" if point.title else ""
    short = SHORT_NAMES[dimension]
    subject = f"{name}{at}: the N that reaches error {target:g}"
    if found is None:
        return Finding(f"{subject} was measured on no seed that all values of {short} share: no verdict.")
    seeds = span([found.num_seeds], "seed")
    rest = f"; left out: {bound_text(found)}" if found.left_out else ""
    if found.slope is None:
        return Finding(
            f"{subject} was measured for all of {seeds} at {len(found.used)} of {len(reached)} values of {short}, too "
            f"few for an exponent{rest}: no verdict."
        )
    judged = _judge(dimension, found.slope, found.num_seeds)
    return Finding(
        f"{subject} goes like {short} to the power {slope_text(found.slope)} over {short} = "
        f"{', '.join(map(text, found.used))} ({seeds}){rest}; the paper's claim is {_CLAIMS[dimension]}, up to "
        f"constants. {judged.rule}",
        judged.verdict,
    )


def _judge(dimension: str, slope: Slope, num_seeds: int) -> Judgement:
    """Only "no dependence on d" is sharp enough for a verdict at these sizes: within a quarter of zero, or outside."""
    if dimension != "ambient_dim":
        return Judgement("information", "Constants blur it at these sizes: no verdict.")
    return judge_slope(slope.low, slope.high, 0.0, _FLAT, num_values=slope.num_points, num_seeds=num_seeds)
