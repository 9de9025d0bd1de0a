"""Scaling of error curves: the context length that reaches an error, against the dimensions of the prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from iclab.experiments.error_names import ZERO
from iclab.experiments.reading import Figure, Finding, Panel, Role, Series, Table, Verdict
from iclab.experiments.series import SHORT_NAMES, by_learner, number, text

if TYPE_CHECKING:
    import pandas as pd

    from iclab.evaluation import Slope

TARGETS = (0.7, 0.5)
_AXES = (("intrinsic_dim", "ambient_dim"), ("ambient_dim", "intrinsic_dim"))
_FLAT = 0.25
_CLAIMS = {"intrinsic_dim": "growth like r^ge", "ambient_dim": "no dependence on d"}

Reached = dict[float, list[float]]  # value of the axis -> the N of each seed, NaN where it is never reached


def scaling(errors: pd.DataFrame, roles: Mapping[str, Role]) -> tuple[list[Figure], list[Table], list[Finding]]:
    """Examples that reach an error, against r at each d and against d at each r; empty where the grid has one value."""
    figures, rows, findings = [], [], []
    for axis, other in _AXES:
        if axis not in errors.columns or errors[axis].nunique() < 2:
            continue
        panels = []
        for target in TARGETS:
            for value in list(errors[other].unique()) if other in errors.columns else [None]:
                part = errors if value is None else errors[errors[other] == value]
                where = "" if value is None else f"{SHORT_NAMES[other]} = {text(value)}"
                curves = []
                for name, learner_rows in by_learner(part, roles):
                    if name == ZERO:
                        continue
                    role = roles.get(name, "theory")
                    reached = _reached(learner_rows, axis, target)
                    means = [float(np.mean(seeds)) for seeds in reached.values()]
                    if not np.isfinite(means).any():
                        continue
                    curves.append(Series(name, list(reached), means, role=role))
                    slope = _slope(reached, exact=role == "theory")
                    rows.append([where, SHORT_NAMES[axis], f"{target:g}", name, *_slope_cells(slope, reached)])
                    if role == "model" and target == TARGETS[-1]:
                        findings.append(_finding(name, axis, where, target, slope, reached))
                title = f"N that reaches error {target:g}" + (f", {where}" if where else "")
                panels.append(Panel(title, SHORT_NAMES[axis], "context examples N", curves, "log2", "log2"))
        caption = (
            f"Examples needed to reach a squared error, against {SHORT_NAMES[axis]}: mean over seeds. A point is "
            "missing "
            "where some seed does not get there within the lengths measured."
        )
        figures.append(Figure(f"scaling-{SHORT_NAMES[axis]}", caption, panels))
    tables = []
    if rows:
        caption = (
            "Exponents of the context length that reaches an error: slopes on log-log axes over the values of "
            "the axis at "
            "which every seed gets there. They describe these sizes."
        )
        tables.append(Table("scaling", caption, ["at", "axis", "error", "learner", "exponent", "values used"], rows))
    return figures, tables, findings


def _reached(rows: pd.DataFrame, axis: str, target: float) -> Reached:
    from iclab.evaluation import examples_to_reach

    reached: Reached = {}
    for value, part in rows.groupby(axis, sort=True):
        ordered = part.sort_values("num_examples")
        curves = np.array(ordered["seed_values"].tolist()).T
        reached[float(str(value))] = [examples_to_reach(list(ordered["num_examples"]), list(c), target) for c in curves]
    return reached


def _slope(reached: Reached, *, exact: bool) -> Slope | None:
    from iclab.evaluation import scaling_slope

    usable = {value: seeds for value, seeds in reached.items() if np.isfinite(seeds).all()}
    if len(usable) < 2:
        return None
    curves = np.array(list(usable.values())).T
    # An exact curve is the same for every seed: one line, whose only spread is that around the fit.
    return scaling_slope(list(usable), curves[:1] if exact else curves)


def _slope_cells(slope: Slope | None, reached: Reached) -> list[str]:
    used = [text(v) for v, seeds in reached.items() if np.isfinite(seeds).all()]
    return ["too few points" if slope is None else _told(slope), ", ".join(used)]


def _told(slope: Slope) -> str:
    if not np.isfinite(slope.low):
        return f"{number(slope.slope)} (two points: no interval)"
    return f"{number(slope.slope)} ({number(slope.low)} to {number(slope.high)}, {slope.kind})"


def _finding(name: str, axis: str, where: str, target: float, slope: Slope | None, reached: Reached) -> Finding:
    at = f" at {where}" if where else ""
    short, seeds = SHORT_NAMES[axis], len(next(iter(reached.values())))
    if slope is None:
        count = sum(np.isfinite(s).all() for s in reached.values())
        return Finding(
            f"{name}{at}: error {target:g} is reached by all {seeds} seeds at {count} of {len(reached)} values of "
            f"{short}, "
            "too few for an exponent.",
            "undecided",
        )
    used = ", ".join(text(v) for v, values in reached.items() if np.isfinite(values).all())
    return Finding(
        f"{name}{at}: the N that reaches error {target:g} goes like {short} to the power {_told(slope)} over "
        f"{short} = {used} "
        f"({seeds} seeds); the paper's claim is {_CLAIMS[axis]}, up to constants.",
        _verdict(axis, slope),
    )


def _verdict(axis: str, slope: Slope) -> Verdict:
    """Only "no dependence on d" is sharp enough for a verdict at these sizes: within a quarter of zero, or outside."""
    if axis != "ambient_dim" or not np.isfinite(slope.low):
        return "information"
    if max(-slope.low, slope.high) < _FLAT:
        return "agrees"
    return "disagrees" if slope.low > _FLAT or slope.high < -_FLAT else "undecided"
