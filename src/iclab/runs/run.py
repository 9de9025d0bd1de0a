"""Executing an experiment: its cells, then its tables and its report."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from iclab import __version__
from iclab.claims.claim import to_json
from iclab.errors import InputError
from iclab.execution import Execution
from iclab.experiments.kind import total_forecast
from iclab.experiments.registry import load_kind
from iclab.experiments.resolved import Cell, Resolved
from iclab.runs.finished import write_stamp
from iclab.runs.folder import CLAIMS, TRAININGS, RunFolder, write_json
from iclab.runs.jobs import Failed, Job
from iclab.runs.plan import Workers, check_device, check_execution, choose_workers
from iclab.runs.progress import Advance, format_seconds, say, show_progress
from iclab.runs.results import load_results
from iclab.runs.reuse import check_others, take_finished
from iclab.runs.safe_report import read_and_draw
from iclab.runs.session import Session, recorded_kind_folder, recorded_session
from iclab.runs.signals import Stopped, Stopping, ending, stoppable
from iclab.runs.storage import code_of, is_finished, read_cell, write_cell, write_failure

if TYPE_CHECKING:
    from iclab.results.page import Report

_ANNOUNCED_SECONDS = 60.0


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        folder: the run folder.
        num_cells, num_finished: cells of the grid, and those that are finished now.
        failed: why each cell failed that did.
        report: the report, or ``None`` where no cell is finished.
        note: why the report has no figures and findings: how summarising the results failed.
    """

    folder: Path
    num_cells: int
    num_finished: int
    failed: dict[str, str]
    report: Path | None
    note: str = ""


class RunInterrupted(Stopped):
    """Ctrl-C, SIGTERM or SIGHUP during a run; the message says how much is finished."""


def run_experiment(
    resolved: Resolved,
    folder: Path | str | None = None,
    *,
    engine: str | None = None,
    workers: int | None = None,
    threads: int = 1,
    device: str = "cpu",
    reuse: Sequence[Path | str] = (),
    quiet: bool = False,
    stream: TextIO | None = None,
) -> Outcome:
    """Run the cells that are not finished, write the tables and the report.

    The same call continues an interrupted run and retries failed cells. Neither the engine nor the number of workers
    changes a bit of the results.

    Args:
        resolved: what `iclab.experiments.resolve` returned.
        folder: the run folder, ``runs/<paper>-<name>-<scale>-<run id>`` by default.
        engine: ``inline`` (in this process), ``local`` (on processes of this machine), or ``module:Class``, an
            `iclab.runs.Executor` of your own; by default ``local`` for more than one cell on more than one core.
        workers: cells at once, of engines other than ``inline``; by default as many as the cores carry.
        threads: of each cell.
        device: where deep models are trained and evaluated: ``cpu``, ``cuda`` (``cuda:1``) or ``mps``; on another
            device than the CPU the cells run one after the other in this process unless ``workers`` says otherwise.
        reuse: folders of other runs; their finished cells of the same configuration, code, threads and device are taken
            over instead of computed.
        quiet: show no progress.
        stream: where progress is shown; standard error by default.

    Raises:
        InputError: for a folder that holds something else, is in use, or has a changed cell, a device that is not here,
            and wrong arguments.
        RunInterrupted: on Ctrl-C, SIGTERM and SIGHUP, after the workers were ended.
    """
    check_execution(engine, workers, threads)
    check_device(device)
    stream = stream or sys.stderr
    shown = Path(folder) if folder is not None else Path("runs") / resolved.folder_name
    # A cell may change the working folder.
    run = RunFolder(shown.absolute())
    experiment = resolved.to_json()
    others = [Path(other).absolute() for other in reuse]
    check_others(others)
    execution = Execution(device, run.path / TRAININGS, tuple(other / TRAININGS for other in others), threads)
    codes = {cell.id: resolved.kind.code(cell.config) for cell in resolved.cells}
    with stoppable() as stopping, run.open(experiment):
        if others:
            missing = {id: _described(code) for id, code in codes.items() if code and not is_finished(run.cell(id))}
            taken = take_finished(run, missing, others, execution)
            if not quiet:
                say(stream, f"{taken} of {len(resolved.cells)} cells taken from other runs")
        finished = [read_cell(run.cell(cell)).record for cell in run.finished(experiment)]
        pending = [cell for cell in resolved.cells if not is_finished(run.cell(cell.id))]
        failed: dict[str, str] = {}
        _warn_of_other_code(finished, codes.values(), stream)
        if pending:
            chosen = choose_workers(engine, workers, execution, len(pending))
            if not quiet:
                _announce(resolved, pending, chosen, stream)
            recorded = {
                "engine": chosen.executor.name,
                "workers": chosen.count,
                **execution.recorded,
                "cells": len(pending),
                "code": _written(codes.values()),
            }
            with recorded_session(run, recorded, resolved.definition.folder, finished) as session:
                failed = _run_cells(run, resolved, pending, chosen, session, stopping, None if quiet else stream)
        return _finish(run, shown, experiment, failed)


def remake(folder: Path | str) -> Outcome:
    """Make the tables and the report of a run folder again, from its finished cells.

    Raises:
        InputError: if it is no run folder, is in use, has no finished cell, or one that was changed.
    """
    run = RunFolder(Path(folder))
    with run.open_existing() as experiment:
        load_kind(experiment["kind"], recorded_kind_folder(run))
        return _finish(run, run.path, experiment, {})


def _run_cells(
    run: RunFolder,
    resolved: Resolved,
    pending: Sequence[Cell],
    chosen: Workers,
    session: Session,
    stopping: Stopping,
    stream: TextIO | None,
) -> dict[str, str]:
    """Run cells and store each as soon as it ends; returns why cells failed."""
    kind_name = resolved.definition.kind
    jobs = {cell.id: Job(cell.id, kind_name, cell.to_json()) for cell in pending}
    forecasts = {cell.id: resolved.kind.forecast(cell.config) for cell in pending}
    known = None not in forecasts.values()
    # Where one forecast is not known, all cells weigh the same.
    work = {cell: (seconds or 0.0) if known else 1.0 for cell, seconds in forecasts.items()}
    total = len(resolved.cells)
    advance = Advance(total - len(pending), total, sum(work.values()), chosen.parallel, known=known)
    failed: dict[str, str] = {}
    outcomes = chosen.outcomes(list(jobs.values()))
    try:
        with show_progress(advance, stream, quiet=stream is None):
            for outcome in outcomes:
                stopping.check()
                if isinstance(outcome, Failed):
                    failed[outcome.cell] = outcome.reason
                    write_failure(run.cell(outcome.cell), outcome)
                else:
                    write_cell(run.cell(outcome.cell), kind_name, jobs[outcome.cell].config, outcome)
                    session.add(outcome.record)
                advance.add(work[outcome.cell])
    except Stopped as stop:
        finished = sum(is_finished(run.cell(cell.id)) for cell in resolved.cells)
        message = f"{ending(stop.number)}: {finished} of {total} cells are finished; the same command continues"
        raise RunInterrupted(stop.number, message) from None
    finally:
        outcomes.close()
    return failed


def _finish(run: RunFolder, shown: Path, experiment: dict[str, Any], failed: dict[str, str]) -> Outcome:
    """Make tables and report; paths of the outcome begin like ``shown``, which is how the user calls the folder."""
    from iclab.report import build_report

    total, finished = len(experiment["cells"]), len(run.finished(experiment))
    report, note = None, ""
    if finished:
        results = load_results(run.path, experiment)
        results.write_tables(run.path)
        summarise = load_kind(experiment["kind"]).summarise

        def draw(shows: Report) -> Path:
            write_json(run.path / CLAIMS, to_json(shows.claims))
            return build_report(results, run.path, shows)

        report, note = read_and_draw(summarise, draw, results)
        if finished == total and not note:
            write_stamp(run, experiment)
    elif not failed:
        raise InputError(f"{shown} has no finished cell; run the experiment first")
    return Outcome(shown, total, finished, failed, report and shown / report.name, note)


def _announce(resolved: Resolved, pending: Sequence[Cell], chosen: Workers, stream: TextIO | None) -> None:
    total = len(resolved.cells)
    if len(pending) < total:
        say(stream, f"continuing: {total - len(pending)} of {total} cells are finished")
    work = total_forecast(resolved.kind, (cell.config for cell in pending))
    seconds = None if work is None else work / chosen.parallel
    if seconds is not None and seconds > _ANNOUNCED_SECONDS:
        cells = "1 cell" if len(pending) == 1 else f"{len(pending)} cells"
        workers = "1 worker" if chosen.count == 1 else f"{chosen.count} workers"
        say(stream, f"{cells} on {workers}: about {format_seconds(seconds)}")


def _described(code: str | None) -> str:
    return code_of({"iclab": __version__, "code": code})


def _written(codes: Iterable[str | None]) -> str | None:
    """All versions of the code of a run, each once: cells differ where they name different modules of a user's."""
    known = dict.fromkeys(codes)
    return None if None in known else ", ".join(str(code) for code in known)


def _warn_of_other_code(finished: Sequence[dict[str, Any]], codes: Iterable[str | None], stream: TextIO | None) -> None:
    versions = dict.fromkeys(_described(code) for code in codes)
    now = "; ".join(versions)
    others = Counter(code_of(record) for record in finished)
    for version in versions:
        others.pop(version, None)
    if others:
        say(
            stream,
            f"warning: {others.total()} of {len(finished)} finished cells were computed by other code "
            f"({'; '.join(sorted(others))}) than is here now ({now}), and are kept; choose another --out to compute "
            "all cells anew",
        )
