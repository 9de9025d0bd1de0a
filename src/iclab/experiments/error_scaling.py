"""Scaling of error curves: the context length that reaches an error, against the dimensions of the prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from iclab.experiments.error_names import ZERO
from iclab.experiments.places import SHORT_NAMES, Place, capped, column_of, places_of
from iclab.experiments.reading import Figure, Finding, Panel, Series, Table, Verdict
from iclab.experiments.roles import Role
from iclab.experiments.series import by_learner, number, span, text

if TYPE_CHECKING:
    import pandas as pd

    from iclab.evaluation import Slope
    from iclab.runs.results import Results

TARGETS = (0.7, 0.5)
_AXES = ("intrinsic_dim", "ambient_dim")
_FLAT = 0.25
_ENOUGH_SEEDS = 5
_CLAIMS = {"intrinsic_dim": "growth like r^ge", "ambient_dim": "no dependence on d"}

Reached = dict[float, dict[int, float]]
"""Value of the axis -> seed -> the N at which its curve reaches the error, NaN where it never does."""


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
        places = places_of(results, errors, [column for column in columns if column != axis])
        for target in TARGETS:
            for place in places:
                curves = []
                for name, learner_rows in by_learner(place.rows, roles):
                    if name == ZERO or learner_rows[axis].nunique() < 2:
                        continue
                    role = roles.get(name, "theory")
                    reached = _reached(learner_rows, axis, target)
                    means = [float(np.mean(list(seeds.values()))) for seeds in reached.values()]
                    if not np.isfinite(means).any():
                        continue
                    curves.append(Series(name, list(reached), means, role=role))
                    slope = _slope(reached, exact=role == "theory")
                    rows.append([place.title, short, f"{target:g}", name, *_slope_cells(slope, reached)])
                    if role == "model" and target == TARGETS[-1]:
                        findings.append(_finding(name, dimension, place, target, slope, reached))
                title = f"N that reaches error {target:g}" + (f", {place.title}" if place.title else "")
                panels.append(Panel(title, short, "context examples N", curves, "log2", "log2"))
        panels, left_out = capped(panels, "the table 'scaling'")
        caption = (
            f"Examples needed to reach a squared error, against {short}: mean over {_seeds(errors)}, no intervals. A "
            "point is missing where some seed does not get there within the lengths measured."
        )
        figures.append(Figure(f"scaling-{short}", caption + left_out, panels))
    tables = []
    if rows:
        caption = (
            "Exponents of the context length that reaches an error: slopes on log-log axes over the values of the axis "
            "at which every seed gets there, with 95 % intervals (Student, over seeds; of the regression for one "
            "curve). They describe these sizes."
        )
        tables.append(Table("scaling", caption, ["at", "axis", "error", "learner", "exponent", "values used"], rows))
    return figures, tables, findings


def _seeds(errors: pd.DataFrame) -> str:
    return span([errors["seed"].nunique()], "seed")


def _reached(rows: pd.DataFrame, axis: str, target: float) -> Reached:
    from iclab.evaluation import examples_to_reach

    reached: Reached = {}
    for value, part in rows.groupby(axis, sort=True):
        reached[float(str(value))] = {
            int(str(seed)): examples_to_reach(list(curve["num_examples"]), list(curve["value"]), target)
            for seed, curve in part.sort_values("num_examples").groupby("seed", sort=True)
        }
    return reached


def _usable(reached: Reached) -> Reached:
    """The values of the axis at which every seed gets there."""
    return {value: seeds for value, seeds in reached.items() if np.isfinite(list(seeds.values())).all()}


def _common_seeds(reached: Reached) -> list[int]:
    """The seeds that every usable value has: an unfinished run has different ones here and there."""
    usable = list(_usable(reached).values())
    return sorted(set.intersection(*map(set, usable))) if usable else []


def _slope(reached: Reached, *, exact: bool) -> Slope | None:
    from iclab.evaluation import scaling_slope

    usable, seeds = _usable(reached), _common_seeds(reached)
    if len(usable) < 2 or not seeds:
        return None
    curves = np.array([[at[seed] for at in usable.values()] for seed in seeds])
    # An exact curve is the same for every seed: one line, whose only spread is that around the fit.
    return scaling_slope(list(usable), curves[:1] if exact else curves)


def _slope_cells(slope: Slope | None, reached: Reached) -> list[str]:
    used = [text(v) for v in _usable(reached)]
    return ["too few points" if slope is None else _told(slope), ", ".join(used)]


def _told(slope: Slope) -> str:
    if not np.isfinite(slope.low):
        return f"{number(slope.slope)} (two points: no interval)"
    return f"{number(slope.slope)} ({number(slope.low)} to {number(slope.high)}, {slope.kind})"


def _finding(name: str, dimension: str, place: Place, target: float, slope: Slope | None, reached: Reached) -> Finding:
    at = f" at {place.title}" if place.title else ""
    short = SHORT_NAMES[dimension]
    if slope is None:
        present = span((len(seeds) for seeds in reached.values()), "seed")
        return Finding(
            f"{name}{at}: error {target:g} is reached by all of {present} at {len(_usable(reached))} of "
            f"{len(reached)} values of {short}, too few for an exponent.",
            "undecided",
        )
    used = ", ".join(text(v) for v in _usable(reached))
    seeds = len(_common_seeds(reached))
    few = "" if seeds >= _ENOUGH_SEEDS else " Fewer than 5 seeds: no verdict."
    return Finding(
        f"{name}{at}: the N that reaches error {target:g} goes like {short} to the power {_told(slope)} over "
        f"{short} = {used} ({span([seeds], 'seed')}); the paper's claim is {_CLAIMS[dimension]}, up to constants.{few}",
        "information" if few else _verdict(dimension, slope),
    )


def _verdict(dimension: str, slope: Slope) -> Verdict:
    """Only "no dependence on d" is sharp enough for a verdict at these sizes: within a quarter of zero, or outside."""
    if dimension != "ambient_dim" or not np.isfinite(slope.low):
        return "information"
    if max(-slope.low, slope.high) < _FLAT:
        return "agrees"
    return "disagrees" if slope.low > _FLAT or slope.high < -_FLAT else "undecided"
