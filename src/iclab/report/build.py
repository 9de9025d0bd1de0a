"""`build_report`: from the results of a run to its figures and its page."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from iclab.files import write_atomic
from iclab.memory import format_bytes
from iclab.report.csv_data import data_link
from iclab.report.drawing import DrawnFigure, draw_figure
from iclab.report.intervals import intervals_in_words
from iclab.report.page import Download, as_json, render_page
from iclab.report.styles import assign_styles
from iclab.report.text import cell_text, duration, file_name, is_number, plain, span
from iclab.results.page import Report

if TYPE_CHECKING:
    from iclab.results.results import Results

# A longer file would make the page slow to open; it lies beside the page in any case.
_LARGEST_EMBEDDED_FILE = 1_000_000
_MEDIA_TYPES = {".csv": "text/csv", ".json": "application/json"}
_SHOWN_ELSEWHERE = {"title", "question", "source", "cells"}


def build_report(results: Results, folder: Path, report: Report | None = None) -> Path:
    """Draw the figures of a run into ``folder/figures`` and write ``folder/report.html``; return the page's path.

    Args:
        results: the run's results.
        folder: the run folder. Its ``environment.json``, ``results.csv``, ``summary.csv`` and ``claims.json``, if
            there, become part of the page.
        report: what the results show; by default what their kind's summary makes of them.

    Raises:
        InputError: the kind is unknown, or its report cannot be drawn.
        OSError: the folder cannot be written; files that were there stay whole.
    """
    from iclab.experiments.registry import load_kind

    folder = Path(folder)
    report = report or load_kind(results.experiment["kind"]).summarise(results)
    if results.num_finished < results.num_cells:
        partial = (
            f"Only {results.num_finished} of {results.num_cells} cells are finished; everything below is of those."
        )
        report = replace(report, warning=" ".join(filter(None, [partial, report.warning])))
    files = [folder / name for name in ("results.csv", "summary.csv", "claims.json")]
    environment = _read_environment(folder / "environment.json")
    return render_report(
        report,
        results.experiment,
        environment,
        folder,
        files,
        sampling=_sampling(results.summary),
        intervals=intervals_in_words(results.summary),
    )


def render_report(
    report: Report,
    experiment: Mapping[str, Any],
    environment: Mapping[str, Any],
    folder: Path,
    files: Sequence[Path] = (),
    *,
    sampling: Mapping[str, str] | None = None,
    intervals: Sequence[str] = (),
) -> Path:
    """Write figures and page of a report; return the page's path. Equal input gives equal bytes.

    Args:
        report: claims, notes, figures and tables.
        experiment: the content of ``config.json``.
        environment: the content of ``environment.json``.
        folder: where ``figures/`` and ``report.html`` go; made if it is missing.
        files: to offer on the page; those that are missing are left out.
        sampling: further lines of provenance, such as the number of prompts behind a value.
        intervals: sentences on what intervals mean throughout the page.

    Raises:
        InputError: the report cannot be drawn.
        OSError: the folder cannot be written.
    """
    folder = Path(folder)
    styles = assign_styles(report.figures)
    drawn: dict[str, DrawnFigure] = {}
    for figure in report.figures:
        drawn[file_name(figure.name, {name.lower() for name in drawn})] = draw_figure(figure, styles)
    sampling = sampling or {}
    axes = experiment.get("grid") or {}
    sections = {
        "glance": _glance(experiment, environment, sampling),
        "intervals": [plain(sentence) for sentence in intervals],
        "axes": [(plain(key), ", ".join(_value(v) for v in values)) for key, values in axes.items()],
        "configuration": as_json({k: v for k, v in experiment.items() if k not in _SHOWN_ELSEWHERE}),
        "provenance": [*((plain(k), plain(v)) for k, v in sampling.items()), *_flat(environment)],
        "environment": as_json(environment) if environment else "",
        "files": _embedded(files),
    }
    header = {key: plain(experiment.get(key, "")) for key in ("title", "question", "source")}
    header["name"] = plain(experiment.get("experiment", ""))
    page = render_page(report, drawn, styles, header, sections)
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        write_atomic(folder / "figures" / f"{name}.svg", figure.svg)
        write_atomic(folder / "figures" / f"{name}.png", figure.png)
    # The page last: while it is there, the figures are those of the page.
    return write_atomic(folder / "report.html", page)


def _glance(
    experiment: Mapping[str, Any], environment: Mapping[str, Any], sampling: Mapping[str, str]
) -> list[tuple[str, str]]:
    """The few facts that a reader wants before the findings."""
    seconds = _total_seconds(environment)
    cells = experiment.get("cells")
    facts = {
        "scale": experiment.get("scale"),
        "run": experiment.get("run_id"),
        "cells": len(cells) if isinstance(cells, (list, tuple, dict)) else None,
        **sampling,
        "took": duration(seconds) if seconds else None,
        "iclab": environment.get("iclab"),
    }
    return [(plain(k), plain(v)) for k, v in facts.items() if v not in (None, "")]


def _total_seconds(environment: Mapping[str, Any]) -> float:
    """Of all sessions: an interrupted run lists the earlier ones under ``previous``."""
    previous = environment.get("previous")
    earlier = [e for e in previous if isinstance(e, Mapping)] if isinstance(previous, (list, tuple)) else []
    return sum(float(s["seconds"]) for s in [environment, *earlier] if _is_amount(s.get("seconds")))


def _sampling(summary: pd.DataFrame) -> dict[str, str]:
    """How many seeds and prompts stand behind the numbers; nothing where all are exact."""
    measured = summary[summary["interval"] != "exact"] if "interval" in summary else summary
    # A single number a seed, such as an area under a curve, has one sample and rests on no prompts.
    counts = {"seeds": ("num_seeds", 1), "prompts per value": ("num_prompts", 2)}
    found = {
        label: [int(v) for v in measured[column].dropna() if v >= least]
        for label, (column, least) in counts.items()
        if column in summary
    }
    return {label: span(values) for label, values in found.items() if values}


def _read_environment(path: Path) -> dict[str, Any]:
    """The content of ``environment.json``; a report can be made without, and then says so."""
    try:
        environment = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        environment = None
    return environment if isinstance(environment, dict) else {"environment": "environment.json is missing or damaged"}


def _is_amount(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as lines with their names in words; absent ones and earlier sessions are left to the JSON.

    A setting that is not of the form expected here is shown as it is.
    """
    lines: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{plain(key).replace('_', ' ')}"
        if isinstance(value, Mapping):
            lines += _flat(value, f"{name}: ")
        elif value is None or key == "previous":
            continue
        elif key == "seconds" and _is_amount(value):
            lines.append((name, f"{value:.2f} ({duration(float(value))})"))
        elif key == "memory_bytes" and _is_amount(value):
            lines.append(("memory", format_bytes(value)))
        elif key == "command" and isinstance(value, (list, tuple)):
            lines.append((name, plain(shlex.join(str(v) for v in value))))
        else:
            lines.append((name, _value(value)))
    return lines


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{plain(k)}: {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, float):
        return repr(value)
    return cell_text(value)


def _embedded(files: Sequence[Path]) -> list[Download]:
    found = [path for path in files if path.is_file() and path.stat().st_size <= _LARGEST_EMBEDDED_FILE]
    return [
        Download(plain(path.name), data_link(path.read_bytes(), _MEDIA_TYPES.get(path.suffix, "text/csv")))
        for path in found
    ]
