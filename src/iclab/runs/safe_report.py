"""Summaries that fail cost the summary alone: the tables are shown in any case."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from iclab.results.page import Report, Table
from iclab.results.wording import plural, quantity

if TYPE_CHECKING:
    from iclab.results.results import Results

_MOST_ROWS = 500
_SPREAD = {"statistic", "value", "low", "high", "level", "seed_values"}


def read_and_draw(
    summarise: Callable[[Results], Report], draw: Callable[[Report], Path], results: Results
) -> tuple[Path, str]:
    """Return ``draw(summarise(results))`` and an empty string; where either fails, ``draw`` of the plain tables with
    the reason, and the reason as one line.

    Cells are computed by then and may have cost days, and ``summarise`` may be a user's own: whatever it raises, the
    numbers must reach the reader.

    Raises:
        OSError: of ``draw``: the folder cannot be written.
    """
    try:
        report = summarise(results)
    except Exception as error:  # any failure at all: see above
        failure = f"the summary failed: {_reason(error)}"
    else:
        try:
            return draw(report), ""
        except OSError:
            raise
        except Exception as error:
            failure = f"the report cannot be drawn: {_reason(error)}"
    return draw(_plain_report(results, failure)), failure


def _reason(error: Exception) -> str:
    """The last line of the traceback, and where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = " ".join("".join(traceback.format_exception_only(error)).split())
    return f"{line} (in {frame.name}, line {frame.lineno} of {Path(frame.filename).name})"


def _plain_report(results: Results, failure: str) -> Report:
    summary = results.summary
    keys = [column for column in summary.columns if column not in _SPREAD]
    rows = [[_cell(row[key]) for key in keys] + [quantity(row)] for _, row in summary.iloc[:_MOST_ROWS].iterrows()]
    left = len(summary) - len(rows)
    caption = "All measurements, with their intervals." + (
        f" {plural(left, 'further row')} left out here; summary.csv has all." if left else ""
    )
    return Report(
        tables=[Table("summary", caption, [*keys, "value"], rows)],
        warning=f"No figures and no claims: {failure}. The measurements are complete, in the table below and in the "
        "CSV files; `iclab report` reads them again.",
    )


def _cell(value: object) -> str | int | None:
    import pandas as pd

    if pd.isna(value):  # type: ignore[call-overload]
        return None
    return int(value) if hasattr(value, "__index__") else str(value)  # type: ignore[arg-type]
