"""Tables of errors under outliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iclab.claims.li2025 import LEVELS
from iclab.results.grid_points import swept_columns
from iclab.results.page import Table
from iclab.results.wording import basis_of, interval_note, plural, quantity
from iclab.studies.outliers.error.coordinates import Coordinate, points, without
from iclab.studies.outliers.error.fraction_claims import tolerated_text
from iclab.studies.outliers.learners import learners_of
from iclab.studies.outliers.names import ALPHA, TRAINING_LOSS

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

_MOST_ROWS = 400


def error_table(results: Results, errors: pd.DataFrame, coords: Sequence[Coordinate]) -> list[Table]:
    """The error of every learner at every grid point."""
    learners = list(dict.fromkeys(errors["learner"]))
    rest = without(coords, [ALPHA])
    by_alpha = len(rest) < len(coords)
    rows: list[list[str | float | int | None]] = []
    for point in points(results, errors, rest):
        for _, group in point.rows.groupby(ALPHA) if by_alpha else [(None, point.rows)]:
            values = {str(row["learner"]): quantity(row) for _, row in group.iterrows()}
            alpha = [float(group[ALPHA].iloc[0])] if by_alpha else []
            rows.append([point.title, *alpha, *(values.get(name) for name in learners), basis_of(group)])
    left = len(rows) - _MOST_ROWS
    caption = f"0-1 error, averaged over all tasks. {interval_note(errors)}" + (
        f" {plural(left, 'further row')} left out; summary.csv has all." if left > 0 else ""
    )
    columns = ["test distribution", *(["alpha"] if by_alpha else []), *learners, "rests on"]
    return [Table("error", caption, columns, rows[:_MOST_ROWS])]


def tolerance_table(results: Results, errors: pd.DataFrame, coords: Sequence[Coordinate]) -> list[Table]:
    """Up to which alpha each learner's error stays below each level, beside the published guarantee."""
    rows: list[list[str | float | int | None]] = []
    for point in points(results, errors, without(coords, [ALPHA])):
        for learner in learners_of(point.config):
            mine = point.rows[point.rows["learner"] == learner.name]
            if len(mine):
                limit = learner.guarantee(int(mine["num_examples"].iloc[0]))
                reach = [tolerated_text(mine, level) for level in LEVELS]
                rows.append([point.title, learner.name, *reach, limit, basis_of(mine)])
    caption = (
        "The largest measured alpha up to which the whole interval of the error stays below a level at every measured "
        "alpha (>=: it is the largest of all; <: it does not at the smallest), and the share of outliers that the "
        "theorems of arXiv 2510.00399 tolerate, as published, for models that they treat."
    )
    columns = [
        "test distribution",
        "learner",
        *(f"alpha for error < {level:g}" for level in LEVELS),
        "guarantee",
        "rests on",
    ]
    return [Table("tolerated", caption, columns, rows)]


def training_table(results: Results, coords: Sequence[Coordinate]) -> list[Table]:
    """The loss that each training ended with."""
    losses = results.summary[results.summary["metric"] == TRAINING_LOSS]
    if losses.empty:
        return []
    swept = set(swept_columns(results)) & {column for column in losses.columns if losses[column].notna().any()}
    mine = [coord for coord in coords if coord.column in swept and losses[coord.column].nunique(dropna=False) > 1]
    rows: list[list[str | float | int | None]] = []
    for point in points(results, losses, mine):
        for _, row in point.rows.iterrows():
            rows.append([point.title, str(row["learner"]), quantity(row), int(row["num_seeds"])])
    caption = (
        "Mean hinge loss of fresh prompts in the last window of each training. Where it is not near zero, the model "
        "has not learned its training distribution, and its errors are no evidence about the claims. "
        f"{interval_note(losses)}"
    )
    return [Table("training", caption, ["training distribution", "learner", "loss", "seeds"], rows)]
