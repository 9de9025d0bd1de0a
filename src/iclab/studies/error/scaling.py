"""Scaling of error curves: the context length that reaches an error, against the dimensions of the prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from iclab.claims.claim import ClaimResult, Estimate
from iclab.claims.oh2025 import CONTEXT_IN_D, CONTEXT_IN_R, SHARP
from iclab.claims.rules import judge
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
from iclab.results.page import Figure, Panel, Table
from iclab.results.wording import by_learner, format_setting, span
from iclab.studies.error.names import ZERO

if TYPE_CHECKING:
    import pandas as pd

    from iclab.evaluation import CrossingSlope
    from iclab.results.crossing_words import Reached
    from iclab.results.results import Results

TARGETS = (0.7, 0.5)
_CLAIMS = {"intrinsic_dim": CONTEXT_IN_R, "ambient_dim": CONTEXT_IN_D}


def scaling(
    results: Results, columns: Sequence[str], roles: Mapping[str, Role]
) -> tuple[list[Figure], list[Table], list[ClaimResult]]:
    """Examples that reach an error, against r and against d, at each grid point of all other swept ``columns``; empty
    where the grid has one value."""
    errors = results.per_seed[results.per_seed["metric"] == "squared_error"]
    figures, rows, claims = [], [], []
    for dimension in _CLAIMS:
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
                    if role == "model" and target == TARGETS[-1] and _is_pretrained(point, name):
                        claims.append(_claim(name, dimension, point, target, slope, reached))
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
            "N: mean over seeds; <= and > are bounds, with the number of seeds that make them."
        )
        columns = ["at", "axis", "error", "learner", "exponent", "values used", "left out", "N by value"]
        tables.append(Table("scaling", caption, columns, rows))
    return figures, tables, claims


def _is_pretrained(point: GridPoint, name: str) -> bool:
    """Whether a learner is one of the models that the claims are about, and no estimator or learner of a user's own."""
    sections = {section["label"] or key: section for key, section in point.config["learners"].items()}
    return sections.get(name, {}).get("kind") in ("one_layer", "deep")


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
    return [exponent, ", ".join(map(format_setting, found.used)), bound_text(found)]


def _claim(
    name: str, dimension: str, point: GridPoint, target: float, found: CrossingSlope | None, reached: Reached
) -> ClaimResult:
    """Only "no dependence on d" is sharp enough for a verdict at these sizes."""
    short = SHORT_NAMES[dimension]
    remarks = [f"N is the context length that reaches error {target:g}."]
    estimates = []
    if found is None:
        remarks.append(f"It was measured on no seed that all values of {short} share.")
    elif found.slope is None:
        seeds, values = span([found.num_seeds], "seed"), f"{len(found.used)} of {len(reached)} values of {short}"
        remarks.append(f"It was measured for all of {seeds} at {values}, too few for an exponent.")
    else:
        remarks.append(f"Measured at {short} = {', '.join(map(format_setting, found.used))}.")
        estimates = [Estimate.of_slope(found.slope, found.num_seeds)]
    if found is not None and found.left_out:
        remarks.append(f"Left out: {bound_text(found)}.")
    return judge(
        _CLAIMS[dimension],
        estimates,
        subject=name,
        at=point.title,
        settings=point.key,
        unmet="" if dimension == "ambient_dim" else SHARP,
        remarks=remarks,
    )
