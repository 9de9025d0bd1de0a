"""Series as arrays that can be drawn: checked, with gaps where a value has no place on the axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iclab.errors import InputError
from iclab.report.text import plain
from iclab.report.ticks import LOGARITHMIC
from iclab.results.page import Panel, Series

# Beyond this matplotlib's own arithmetic overflows; a curve that is there has diverged.
_LARGEST, _SMALLEST = 1e200, 1e-200


@dataclass(frozen=True)
class Curve:
    """A series ready to draw. All arrays have the length of ``x``; NaN is a gap.

    Attributes:
        series: where it comes from.
        x, y: values.
        low, high: ends of the interval; infinite where the interval leaves the axes, NaN where there is none.
        seeds: ``(num_seeds, len(x))``.
        most, least: bounds of values that are not known: upper bounds (``<=``) and lower bounds (``>``). ``y`` is NaN
            there.
    """

    series: Series
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: np.ndarray
    most: np.ndarray
    least: np.ndarray

    @property
    def drawn(self) -> np.ndarray:
        """Where a point is drawn."""
        return np.isfinite(self.x) & np.isfinite(self.y)

    def isolated(self) -> np.ndarray:
        """Drawn points with no drawn neighbour: a line does not show them."""
        padded = np.concatenate([[False], self.drawn, [False]])
        return self.drawn & ~padded[:-2] & ~padded[2:]


def clean_panel(panel: Panel) -> tuple[list[Curve], list[str]]:
    """The curves of a panel, and a note on everything that could not be drawn.

    Raises:
        InputError: lengths that do not fit, or values that are no numbers.
    """
    notes: list[str] = []
    return [_clean(series, panel, notes) for series in panel.series], notes


def _clean(series: Series, panel: Panel, notes: list[str]) -> Curve:
    x, y = _numbers(series, "x", series.x), _numbers(series, "y", series.y)
    count = len(x)
    none = np.full(count, np.nan)
    low = _numbers(series, "low", series.low) if len(series.low) else none
    high = _numbers(series, "high", series.high) if len(series.high) else none
    seeds = [_numbers(series, f"seeds[{i}]", values) for i, values in enumerate(series.seeds)]
    named = [("y", y), ("low", low), ("high", high), *((f"seeds[{i}]", s) for i, s in enumerate(seeds))]
    for name, values in named:
        if len(values) != count:
            raise InputError(
                f"series {plain(series.label)!r} has {count} x values and {len(values)} values of {name}; "
                "expected equal lengths"
            )
    lost_x, x = _drawable(x, panel.x_scale)
    lost_y, y = _drawable(y, panel.y_scale)
    relations = np.asarray(list(series.relations) or ["="] * count)
    if len(relations) != count or not np.isin(relations, ["=", "<=", ">"]).all():
        raise InputError(
            f"relations of series {plain(series.label)!r} are {list(series.relations)}; expected =, <= or > for "
            f"each of {count} x values"
        )
    most, least = (np.where(relations == sign, y, np.nan) for sign in ("<=", ">"))
    _note(notes, series, int(np.count_nonzero(lost_x | lost_y)), panel)
    if not (np.isfinite(x) & np.isfinite(y)).any():
        notes.append(f"{plain(series.label)} has nothing to draw{_place(panel)}.")
    y = np.where(relations == "=", y, np.nan)
    table = np.stack([_drawable(s, panel.y_scale)[1] for s in seeds]) if seeds else np.empty((0, count))
    return Curve(series, x, y, *_interval(low, high, panel), table, most, least)


def _numbers(series: Series, name: str, values: Sequence[float]) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} of series {plain(series.label)!r} holds values that are not numbers") from None
    if array.ndim != 1:
        raise InputError(f"{name} of series {plain(series.label)!r} has shape {array.shape}; expected a flat list")
    return array


def _drawable(values: np.ndarray, scale: str) -> tuple[np.ndarray, np.ndarray]:
    """Which values are lost, and the values with NaN in their places. A NaN is a gap that was asked for, not a loss."""
    lost = np.abs(values) > _LARGEST
    if scale in LOGARITHMIC:
        lost |= values < _SMALLEST
    return lost, np.where(lost, np.nan, values)


def _interval(low: np.ndarray, high: np.ndarray, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
    floor = _SMALLEST if panel.y_scale in LOGARITHMIC else -_LARGEST
    known = ~np.isnan(low) & (high >= floor)
    open_low = np.where(low < floor, -np.inf, low)
    open_high = np.where(high > _LARGEST, np.inf, high)
    return np.where(known, open_low, np.nan), np.where(known, open_high, np.nan)


def _note(notes: list[str], series: Series, lost: int, panel: Panel) -> None:
    if not lost:
        return
    scales = (panel.x_scale, panel.y_scale)
    reason = "zero, negative or infinite on a logarithmic axis" if set(scales) & set(LOGARITHMIC) else "infinite"
    points = "1 point" if lost == 1 else f"{lost} points"
    notes.append(f"{points} of {plain(series.label)} not drawn{_place(panel)}: {reason}.")


def _place(panel: Panel) -> str:
    return f" in “{plain(panel.title)}”" if panel.title else ""
