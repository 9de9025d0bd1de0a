"""How far a run is: a bar on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

INTERVAL = 10.0


class Advance:
    """Counts finished work.

    Args:
        done: cells that were finished before.
        total: all cells of the run.
        work: forecast seconds of the cells that are left; cells weigh by their forecast in the time that is left.
    """

    def __init__(self, done: int, total: int, work: float) -> None:
        self.done, self.total = done, total
        self._work, self._worked = max(work, 1e-9), 0.0
        self._start = time.monotonic()

    def add(self, work: float) -> None:
        """One more cell is finished, whose forecast was ``work``."""
        self.done += 1
        self._worked += work

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float | None:
        """Seconds that are left, from the pace so far; ``None`` before the first cell is finished."""
        if self._worked <= 0:
            return None
        return self.elapsed * max(self._work - self._worked, 0.0) / self._worked

    def line(self) -> str:
        """``3/20 cells, 40 s so far, about 3 min left``."""
        left = "" if self.left is None else f", about {format_seconds(self.left)} left"
        return f"{self.done}/{self.total} cells, {format_seconds(self.elapsed)} so far{left}"


@contextmanager
def show_progress(advance: Advance, stream: TextIO | None = None, *, quiet: bool = False) -> Iterator[None]:
    """Show ``advance`` on ``stream`` (standard error) while the body runs."""
    stream = stream or sys.stderr
    stop = Event()
    if quiet:
        yield
        return
    if stream.isatty():
        body = _bar(advance, Console(file=stream), stop)
    else:
        body = Thread(target=_lines, args=(advance, stream, stop), daemon=True)
    body.start()
    try:
        yield
    finally:
        stop.set()
        body.join()


def format_seconds(seconds: float) -> str:
    """``40 s``, ``3 min``, ``2 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _lines(advance: Advance, stream: TextIO, stop: Event) -> None:
    while not stop.wait(INTERVAL):
        print(advance.line(), file=stream, flush=True)


def _bar(advance: Advance, console: Console, stop: Event) -> Thread:
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("cells"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )

    def draw() -> None:
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("", total=advance.total, completed=advance.done)
            while not stop.wait(0.5):
                left = "" if advance.left is None else f"about {format_seconds(advance.left)} left"
                bar.update(task, completed=advance.done, description=left)

    return Thread(target=draw, daemon=True)
