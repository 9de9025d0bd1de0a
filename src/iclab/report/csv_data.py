"""The data behind figures and tables as CSV, and as links that hold it."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

from iclab.report.text import is_number
from iclab.results.page import Figure, Series, Table

_FIRST_COLUMNS = ("panel", "x axis", "y axis", "series", "role", "x", "y", "low", "high", "interval")
# A spreadsheet reads a text cell with such a beginning as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def figure_csv(figure: Figure) -> str:
    """One row a point; numbers in full precision, empty cells where there is no number."""
    everything = [(panel, series) for panel in figure.panels for series in panel.series]
    seeds = max((len(series.seeds) for _, series in everything), default=0)
    bounds = any(len(series.relations) for _, series in everything)
    rows: list[Sequence[Any]] = [
        [*_FIRST_COLUMNS, *(["bound"] if bounds else []), *(f"seed column {i + 1}" for i in range(seeds))]
    ]
    for panel, series in everything:
        head = (panel.title, panel.x_label, panel.y_label, series.label, series.role)
        rows += ([*head, *point] for point in _points(series, seeds, bounds))
    return _write(rows)


def table_csv(table: Table) -> str:
    """The table's cells in full precision."""
    return _write([list(table.columns), *table.rows])


def data_link(text: str | bytes, media_type: str = "text/csv") -> str:
    """A ``data:`` address that holds the whole file."""
    content = text.encode("utf-8") if isinstance(text, str) else text
    return f"data:{media_type};charset=utf-8;base64,{base64.b64encode(content).decode('ascii')}"


def _points(series: Series, seeds: int, bounds: bool) -> Iterable[list[Any]]:
    for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        low = series.low[i] if len(series.low) else None
        high = series.high[i] if len(series.high) else None
        values = [series.seeds[k][i] if k < len(series.seeds) else None for k in range(seeds)]
        relation = series.relations[i] if len(series.relations) else "="
        bound = [None if relation == "=" else relation] if bounds else []
        yield [x, y, low, high, series.band, *bound, *values]


def _write(rows: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return buffer.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if is_number(value):
        # repr(float) is the shortest text that reads back as the same number.
        return "" if math.isnan(value) else str(int(value)) if _whole(value) else repr(float(value))
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _whole(value: Any) -> bool:
    return hasattr(value, "__index__")
