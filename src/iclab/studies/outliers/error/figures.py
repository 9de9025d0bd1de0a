"""Figures of errors under outliers: one for each coordinate with numbers enough for an abscissa."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iclab.claims.li2025 import LEVELS
from iclab.results.grid_points import GridPoint, capped
from iclab.results.page import Figure, Panel, Scale, Series
from iclab.results.wording import by_learner, interval_note, series
from iclab.studies.outliers.error.coordinates import Coordinate, points, setting, without
from iclab.studies.outliers.error.placement_claims import PLACEMENTS, quoted_accuracy
from iclab.studies.outliers.learners import Trained, learners_of, roles_of
from iclab.studies.outliers.names import ALPHA, ERROR, FLOOR, NO_CLEAN_EXAMPLE

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

_ENOUGH = 4  # values of an abscissa
_VISIBLE = 1e-3
_NAMES = {ALPHA: "error", "num_examples": "error-length"}


def error_figures(results: Results, coords: Sequence[Coordinate]) -> list[Figure]:
    """Error against each numeric coordinate, and against alpha once more where small errors can be told apart."""
    figures = []
    for coord in _abscissae(coords):
        figures.append(_figure(results, coords, coord, "linear"))
        if coord.column == ALPHA:
            figures.append(_figure(results, coords, coord, "symlog"))
    return figures


def _abscissae(coords: Sequence[Coordinate]) -> list[Coordinate]:
    numeric = [coord for coord in coords if coord.numeric]
    long = [coord for coord in numeric if len(coord.values) >= _ENOUGH or coord.column == ALPHA]
    chosen = long or sorted(numeric, key=lambda coord: -len(coord.values))[:1]
    return sorted(chosen, key=lambda coord: coord.column != ALPHA)


def _figure(results: Results, coords: Sequence[Coordinate], coord: Coordinate, scale: Scale) -> Figure:
    table = results.summary[results.summary["metric"].isin([ERROR, FLOOR])]
    found = points(results, table, without(coords, [coord.column]))
    panels, left_out = capped([_panel(point, coord, scale) for point in found], "summary.csv")
    name = _NAMES.get(coord.column, f"error-{coord.column.replace('_', '-').replace('.', '-')}")
    small = scale == "symlog"
    caption = (
        f"0-1 error against {coord.letter}, averaged over all tasks, on the same prompts for every learner"
        f"{', on an axis that tells small errors apart' if small else ''}. Outliers are drawn {_sampling(found)}. "
        f"{interval_note(table[table['metric'] == ERROR])}{left_out}"
    )
    return Figure(f"{name}-small" if small else name, caption, panels)


def _sampling(found: Sequence[GridPoint]) -> str:
    """How outliers were drawn, in words."""
    words = {"iid": "independently of each other", "fixed_count": "in fixed numbers"}
    return " or ".join(dict.fromkeys(words[setting(point, "sampling")] for point in found))


def _panel(point: GridPoint, coord: Coordinate, scale: Scale) -> Panel:
    learners = learners_of(point.config)
    roles = roles_of(point.config)
    errors = point.rows[point.rows["metric"] == ERROR]
    curves = [series(rows, coord.column, name, roles.get(name, "model")) for name, rows in by_learner(errors, roles)]
    floor = point.rows[point.rows["metric"] == FLOOR]
    if coord.column in (ALPHA, "num_examples") and floor["value"].max() > _VISIBLE:
        curves.append(series(floor, coord.column, NO_CLEAN_EXAMPLE, "theory"))
    small = scale == "symlog"
    return Panel(
        point.title,
        coord.letter,
        "0-1 error",
        curves,
        _scale(coord),
        scale,
        vertical=guarantees(point, learners) if coord.column == ALPHA else (),
        horizontal=[(LEVELS[0], f"{LEVELS[0]:g}")] if small else [(0.5, "guessing")],
        y_limits=None if small else (-0.02, 1.02),
    )


def _scale(coord: Coordinate) -> Scale:
    positive = [value for value in coord.values if value > 0]
    if coord.column == ALPHA or not positive or max(positive) < 6 * min(positive):
        return "linear"
    return "log2" if len(positive) == len(coord.values) else "symlog"


def guarantees(point: GridPoint, learners: Sequence[Trained]) -> list[tuple[float, str]]:
    """The published guarantees of the one-layer models, each once."""
    lengths = point.rows["num_examples"].dropna().unique()
    if len(lengths) != 1:
        return []
    lines: dict[tuple[float, str], None] = {}
    for learner in learners:
        limit = learner.guarantee(int(lengths[0]))
        if limit is not None:
            formula = "p_a l_tr/l_ts" if learner.section.kind == "gated" else "1/2"
            name = "Mamba" if learner.section.kind == "gated" else "linear"
            lines[limit, f"{formula} (published, {name})"] = None
    return list(lines)


def placement_figure(results: Results, errors: pd.DataFrame, coords: Sequence[Coordinate]) -> list[Figure]:
    """Error against alpha: a row of panels for each learner, one curve for each placement."""
    alpha = next((coord for coord in coords if coord.column == ALPHA), None)
    if alpha is None:
        return []
    found = points(results, errors, without(coords, ["placement", ALPHA]))
    learners = {learner.name: learner for point in found for learner in learners_of(point.config)}
    panels = []
    for learner in learners.values():
        for point in found:
            rows = point.rows[point.rows["learner"] == learner.name]
            curves = [
                series(mine, ALPHA, f"outliers {placement}", "model")
                for placement in PLACEMENTS
                if len(mine := rows[rows["placement"] == placement])
            ]
            curves += _quoted(point, learner)
            title = " | ".join(part for part in (learner.name, point.title) if part)
            panels.append(Panel(title, alpha.letter, "0-1 error", curves, y_limits=(-0.02, 1.02)))
    shown, left_out = capped(panels, "summary.csv")
    caption = (
        "0-1 error against the share of outliers by where they stand in the context. Published numbers are quoted "
        f"beside the setting that is theirs as far as we know it. {interval_note(errors)}{left_out}"
    )
    return [Figure("placement", caption, shown, columns=len(found) if len(found) <= 3 else None)]


def _quoted(point: GridPoint, learner: Trained) -> list[Series]:
    at_half = GridPoint(point.title, {**point.key, ALPHA: 0.5}, point.rows, point.config)
    found = []
    for placement in PLACEMENTS:
        value = quoted_accuracy(learner, at_half, placement)
        if value is not None:
            label = f"outliers {placement}"
            found.append(Series(f"{label}, published", [0.5], [1 - value / 100], role="quoted", like=label))
    return found
