"""What the training of deep models says: the error while they learn, when they first do, and how large they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from iclab.experiments.roles import Role
from iclab.results.grid_points import GridPoint, capped, grid_points
from iclab.results.page import Figure, Panel, Table
from iclab.results.wording import by_learner, interval_note, number, series, span
from iclab.studies.error.sizes import sizes

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

LEARNED = 0.5
"""A model has learned in context where its error over all prefixes is below this part of that of predicting zero."""


def training(results: Results, columns: list[str], roles: Mapping[str, Role]) -> tuple[list[Figure], list[Table]]:
    """The error against the steps of training, the first evaluation at which each model has learned, and how large
    each is; nothing where no deep model was trained."""
    curves: pd.DataFrame = results.summary[results.summary["metric"] == "training_error"]
    if curves.empty:
        return [], []
    points = grid_points(results, curves, columns)
    panels, left_out = capped([_panel(point, roles) for point in points], "summary.csv")
    figure = Figure(
        "training",
        "Error over all prefixes of fixed prompts of the final distribution while a model is trained, divided by that "
        "of predicting zero. A curriculum trains on easier prompts at first, so the error here may rise at first. "
        f"{interval_note(curves)}{left_out}",
        panels,
    )
    table = Table(
        "learned",
        f"The first evaluation at which the error over all prefixes is below {LEARNED:g} of that of predicting zero, "
        "for each seed, and the error at the end. <= marks the first evaluation of all, before which nothing is "
        "known; > marks the last one, up to which the model has not learned.",
        ["prompts", "learner", "steps, seed by seed", "error at the end", "rests on"],
        [row for point in points for row in _rows(point, roles)],
    )
    return [figure], [table, *sizes(points)]


def _panel(point: GridPoint, roles: Mapping[str, Role]) -> Panel:
    return Panel(
        point.title,
        "steps of training",
        "error / error of predicting zero",
        [series(rows, "step", name, roles.get(name, "model")) for name, rows in by_learner(point.rows, roles)],
        horizontal=[(1.0, "predicting zero")],
        y_limits=(0.0, 1.6),
    )


def _rows(point: GridPoint, roles: Mapping[str, Role]) -> list[list[str | float | int | None]]:
    rows: list[list[str | float | int | None]] = []
    for name, curve in by_learner(point.rows, roles):
        ordered = curve.sort_values("step")
        steps = [int(step) for step in ordered["step"]]
        seeds = list(zip(*ordered["seed_values"], strict=False))
        firsts = [next((s for s, e in zip(steps, errors, strict=False) if e < LEARNED), None) for errors in seeds]
        steps_text = ", ".join(_first_text(first, steps) for first in firsts)
        rows.append([point.title, name, steps_text, number(ordered["value"].iloc[-1]), span([len(seeds)], "seed")])
    return rows


def _first_text(first: int | None, steps: list[int]) -> str:
    """``1,000``, or a bound where no evaluation lies on the other side."""
    if first is None:
        return f"> {steps[-1]:,}"
    return f"{'<= ' if first == steps[0] else ''}{first:,}"
