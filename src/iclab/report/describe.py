"""Figures in words and as rows: for screen readers, and for the table under each figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iclab.report.text import cell_text, plain, short_number
from iclab.results.page import Figure, Panel, Series

MOST_ROWS = 400
# What a missing number or text looks like.
_NOTHING = {"", cell_text(None)}
_SCALES = {"linear": "", "log": " (logarithmic)", "log2": " (logarithmic)", "symlog": " (symmetric logarithmic)"}


@dataclass(frozen=True)
class Cell:
    """A cell of an HTML table."""

    text: str
    numeric: bool


@dataclass(frozen=True)
class Rows:
    """An HTML table; ``total`` counts the rows before the cut at `MOST_ROWS`."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: int

    def filled(self) -> Rows:
        """Without the columns that hold nothing in any row; as it is where that would leave no column."""
        kept = [i for i in range(len(self.columns)) if any(row[i].text not in _NOTHING for row in self.rows)]
        if not kept:
            return self
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return Rows(tuple(self.columns[i] for i in kept), rows, self.total)


def panel_in_words(panel: Panel) -> str:
    """What a panel shows: axes, where each series begins and ends, reference lines."""
    title = f"{plain(panel.title)}. " if panel.title else ""
    axes = f"{plain(panel.y_label)}{_SCALES[panel.y_scale]} against {plain(panel.x_label)}{_SCALES[panel.x_scale]}. "
    lines = [f"{plain(label)} at {short_number(value)}" for value, label in (*panel.vertical, *panel.horizontal)]
    references = f" Reference lines: {', '.join(lines)}." if lines else ""
    return title + axes + " ".join(_series_in_words(series) for series in panel.series) + references


def _series_in_words(series: Series) -> str:
    pairs = zip(series.x, series.y, _bounds(series), strict=True)
    points = [(x, y, b) for x, y, b in pairs if None not in (x, y) and math.isfinite(x) and math.isfinite(y)]
    if not points:
        return f"{plain(series.label)}: no data."
    ends = points if len(points) == 1 else [points[0], points[-1]]
    return f"{plain(series.label)}: " + " to ".join(f"{b}{cell_text(y)} at {short_number(x)}" for x, y, b in ends) + "."


def _bounds(series: Series) -> list[str]:
    """``<= `` or ``> `` before a y that is a bound."""
    return [f"{sign} " if sign != "=" else "" for sign in series.relations] or [""] * len(series.x)


def figure_rows(figure: Figure) -> Rows:
    """The points of a figure, without those of single seeds; columns that would be empty are left out."""
    several = len(figure.panels) > 1
    everything = [(panel, series) for panel in figure.panels for series in panel.series]
    intervals = any(len(series.low) for _, series in everything)
    kinds = any(series.band for _, series in everything)
    bounds = any(len(series.relations) for _, series in everything)
    columns = [
        *(["panel"] if several else []),
        "series",
        _shared([plain(panel.x_label) for panel in figure.panels], "x"),
        _shared([plain(panel.y_label) for panel in figure.panels], "y"),
        *(["low", "high"] if intervals else []),
        *(["interval"] if kinds else []),
        *(["bound"] if bounds else []),
    ]
    rows: list[tuple[Cell, ...]] = []
    for panel, series in everything:
        for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
            low = series.low[i] if len(series.low) else None
            high = series.high[i] if len(series.high) else None
            cells = [_text(panel.title)] if several else []
            cells += [_text(series.label), _number(x), _number(y)]
            cells += [_number(low), _number(high)] if intervals else []
            cells += [_text(series.band)] if kinds else []
            cells += [_text(_bounds(series)[i].strip())] if bounds else []
            rows.append(tuple(cells))
    return Rows(tuple(columns), tuple(rows[:MOST_ROWS]), len(rows)).filled()


def _shared(labels: Sequence[str], otherwise: str) -> str:
    return labels[0] if len(set(labels)) == 1 and labels[0] else otherwise


def _text(value: str) -> Cell:
    return Cell(plain(value), numeric=False)


def _number(value: float | None) -> Cell:
    # 64.0 examples are 64 examples.
    whole = value is not None and math.isfinite(value) and float(value).is_integer() and abs(value) < 1e6
    return Cell(cell_text(int(value) if whole and value is not None else value), numeric=True)
