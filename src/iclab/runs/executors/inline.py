"""Cells one after the other in this process: for debugging, and for a single cell."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from iclab.runs.execution_settings import Place
from iclab.runs.executors.job import Job
from iclab.runs.payload import Failed, Measured, measure


def run_inline(jobs: Iterable[Job], place: Place) -> Generator[Measured | Failed, None, None]:
    """Run each job and yield what became of it."""
    for job in jobs:
        yield measure(job.cell, job.kind, job.config, place)
