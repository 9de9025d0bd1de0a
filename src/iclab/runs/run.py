"""Executing an experiment: its cells, then its tables and its report."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

from iclab.errors import InputError, check_integer
from iclab.experiments.registry import load_kind
from iclab.experiments.resolve import Cell, Resolved
from iclab.experiments.safe_reading import read_and_draw
from iclab.runs.environment import describe_environment
from iclab.runs.executors import Job, run_inline, run_local
from iclab.runs.folder import ENVIRONMENT, RunFolder, write_json
from iclab.runs.payload import Failed
from iclab.runs.progress import Advance, format_seconds, show_progress
from iclab.runs.results import load_results
from iclab.runs.storage import is_finished, read_cell, write_cell, write_failure
from iclab.runs.threads import available_cores

Engine = Literal["inline", "local"]
ENGINES: tuple[Engine, ...] = ("inline", "local")
_ANNOUNCED_SECONDS = 60.0


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        folder: the run folder.
        num_cells, num_finished: cells of the grid, and those that are finished now.
        failed: why each cell failed that did.
        report: the report, or ``None`` where no cell is finished.
        note: why the report has no figures and findings: how reading the results failed.
    """

    folder: Path
    num_cells: int
    num_finished: int
    failed: dict[str, str]
    report: Path | None
    note: str = ""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C during a run; the message says how much is finished."""


def run_experiment(
    resolved: Resolved,
    folder: Path | str | None = None,
    *,
    engine: Engine | None = None,
    workers: int | None = None,
    threads: int = 1,
    quiet: bool = False,
    stream: TextIO | None = None,
) -> Outcome:
    """Run the cells that are not finished, write the tables and the report.

    The same call continues an interrupted run and retries failed cells. Neither the engine nor the number of workers
    changes a bit of the results.

    Args:
        resolved: what `iclab.experiments.resolve.resolve` returned.
        folder: the run folder, ``runs/<paper>-<name>-<scale>-<run id>`` by default.
        engine: ``inline`` (in this process) or ``local`` (on processes of this machine); by default ``local`` for more
            than one cell on more than one core.
        workers: processes of the local engine; by default as many as the cores carry.
        threads: of each cell.
        quiet: show no progress.
        stream: where progress is shown; standard error by default.

    Raises:
        InputError: for a folder that holds something else, is in use, or has a changed cell, and for wrong arguments.
        RunInterrupted: on Ctrl-C, after the workers were ended.
    """
    threads = check_integer("threads", threads, 1)
    workers = None if workers is None else check_integer("workers", workers, 1)
    if engine is not None and engine not in ENGINES:
        raise InputError(f"engine is {engine!r}; expected one of {', '.join(ENGINES)}")
    if engine == "inline" and workers not in (None, 1):
        raise InputError(f"workers is {workers} with the engine inline, which has one; use the engine local")
    stream = stream or sys.stderr
    run = RunFolder(Path(folder) if folder is not None else Path("runs") / resolved.folder_name)
    experiment = resolved.to_json()
    with run.open(experiment):
        for cell in run.finished(experiment):
            read_cell(run.cell(cell))
        pending = [cell for cell in resolved.cells if not is_finished(run.cell(cell.id))]
        engine = engine or ("local" if len(pending) > 1 and available_cores() > 1 else "inline")
        workers = (
            1 if engine == "inline" else min(workers or max(1, available_cores() // threads), max(len(pending), 1))
        )
        failed: dict[str, str] = {}
        if pending:
            if not quiet:
                _announce(resolved, pending, workers, stream)
            execution = {"engine": engine, "workers": workers, "threads": threads, "cells": len(pending)}
            with _recorded_environment(run, execution, resolved.definition.folder):
                failed = _run_cells(run, resolved, pending, engine, workers, threads, quiet, stream)
        return _finish(run, experiment, failed)


def remake(folder: Path | str) -> Outcome:
    """Make the tables and the report of a run folder again, from its finished cells.

    Raises:
        InputError: if it is no run folder, is in use, has no finished cell, or one that was changed.
    """
    run = RunFolder(Path(folder))
    with run.open_existing() as experiment:
        load_kind(experiment["kind"], _recorded_kind_folder(run))
        return _finish(run, experiment, {})


def _run_cells(
    run: RunFolder,
    resolved: Resolved,
    pending: Sequence[Cell],
    engine: Engine,
    workers: int,
    threads: int,
    quiet: bool,
    stream: TextIO,
) -> dict[str, str]:
    """Run cells and store each as soon as it ends; returns why cells failed."""
    kind_name = resolved.definition.kind
    jobs = {cell.id: Job(cell.id, kind_name, cell.to_json()) for cell in pending}
    work = {cell.id: resolved.kind.seconds(cell.config) for cell in pending}
    total = len(resolved.cells)
    advance = Advance(total - len(pending), total, sum(work.values()))
    failed: dict[str, str] = {}
    ordered = list(jobs.values())
    outcomes = run_inline(ordered, threads) if engine == "inline" else run_local(ordered, threads, workers)
    try:
        with show_progress(advance, stream, quiet=quiet):
            for outcome in outcomes:
                if isinstance(outcome, Failed):
                    failed[outcome.cell] = outcome.reason
                    write_failure(run.cell(outcome.cell), outcome)
                else:
                    write_cell(run.cell(outcome.cell), kind_name, jobs[outcome.cell].config, outcome)
                advance.add(work[outcome.cell])
    except KeyboardInterrupt:
        finished = sum(is_finished(run.cell(cell.id)) for cell in resolved.cells)
        raise RunInterrupted(
            f"interrupted: {finished} of {total} cells are finished; the same command continues"
        ) from None
    finally:
        outcomes.close()
    return failed


def _finish(run: RunFolder, experiment: dict[str, Any], failed: dict[str, str]) -> Outcome:
    from iclab.report import build_report

    total, finished = len(experiment["cells"]), len(run.finished(experiment))
    report, note = None, ""
    if finished:
        results = load_results(run.path)
        results.write_tables(run.path)
        read = load_kind(experiment["kind"]).read
        report, note = read_and_draw(read, lambda reading: build_report(results, run.path, reading), results)
    elif not failed:
        raise InputError(f"{run.path} has no finished cell; run the experiment first")
    return Outcome(run.path, total, finished, failed, report, note)


def _announce(resolved: Resolved, pending: Sequence[Cell], workers: int, stream: TextIO) -> None:
    total = len(resolved.cells)
    if len(pending) < total:
        print(f"continuing: {total - len(pending)} of {total} cells are finished", file=stream)
    seconds = sum(resolved.kind.seconds(cell.config) for cell in pending) / workers
    if seconds > _ANNOUNCED_SECONDS:
        crew = "1 worker" if workers == 1 else f"{workers} workers"
        print(f"{len(pending)} cells on {crew}: about {format_seconds(seconds)}", file=stream, flush=True)


@contextmanager
def _recorded_environment(run: RunFolder, execution: dict[str, Any], kind_folder: Path | None) -> Iterator[None]:
    """Write ``environment.json`` before and after; those of earlier attempts are kept in it."""
    path = run.path / ENVIRONMENT
    earlier = run.read_environment()
    previous = [*earlier.pop("previous", []), earlier] if earlier else []
    environment = describe_environment() | execution
    environment["kind_folder"] = str(kind_folder) if kind_folder else None
    start = time.monotonic()
    write_json(path, environment | {"seconds": None, "previous": previous})
    interrupted = False
    try:
        yield
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        seconds = round(time.monotonic() - start, 3)
        write_json(path, environment | {"seconds": seconds, "interrupted": interrupted, "previous": previous})


def _recorded_kind_folder(run: RunFolder) -> Path | None:
    folder = run.read_environment().get("kind_folder")
    return Path(folder) if isinstance(folder, str) else None
