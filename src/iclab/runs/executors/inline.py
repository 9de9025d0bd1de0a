"""Cells one after the other in this process: for debugging, and for a single cell."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from iclab.experiments.registry import load_kind
from iclab.experiments.validation import validate
from iclab.runs.executors.job import Job
from iclab.runs.payload import Failed, Measured, measure
from iclab.runs.threads import torch_threads


def run_inline(jobs: Iterable[Job], threads: int) -> Generator[Measured | Failed, None, None]:
    """Run each job and yield what became of it."""
    for job in jobs:
        kind = load_kind(job.kind)
        config = validate(kind.config, job.config, f"cell {job.cell}: ")
        with torch_threads(threads):
            outcome = measure(job.cell, kind, config, threads)
        yield outcome
