"""Cells one after the other in this process: for debugging, and for a single cell."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from iclab.errors import InputError
from iclab.execution import Execution
from iclab.runs.executors import Executor
from iclab.runs.jobs import Failed, Job, Measured
from iclab.runs.payload import measure


class Inline(Executor):
    """Runs cells in this process, with one worker."""

    name = "inline"

    def run(self, jobs: Iterable[Job], execution: Execution, workers: int) -> Generator[Measured | Failed, None, None]:
        for job in jobs:
            yield measure(job, execution)

    def num_workers(self, asked: int | None, execution: Execution) -> int:
        if asked not in (None, 1):
            raise InputError(f"workers is {asked} with the engine inline, which has one; use the engine local")
        return 1
