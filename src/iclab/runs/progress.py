"""How far a run is: a bar on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TextIO

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

INTERVAL = 10.0
_BAR = 40


class Advance:
    """Counts finished work.

    Args:
        done: cells that were finished before.
        total: all cells of the run.
        work: forecast seconds of the cells that are left, on one core; cells weigh by their forecast in the time that
            is left.
        parallel: cells that advance at once.
        known: whether the forecasts are seconds, and not weights alone.
    """

    def __init__(self, done: int, total: int, work: float, parallel: int = 1, *, known: bool = True) -> None:
        self.done, self.total = done, total
        self._work, self._worked = max(work, 1e-9), 0.0
        self._start = time.monotonic()
        # Seconds for a unit of work: the forecast's until a cell is finished, then what it took up to the last of them.
        self._pace = 1 / parallel if known else None
        self._since = self._start

    def add(self, work: float) -> None:
        """One more cell is finished, whose forecast was ``work``."""
        self.done += 1
        self._worked += work
        if self._worked > 0:
            self._since = time.monotonic()
            self._pace = (self._since - self._start) / self._worked

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float | None:
        """Seconds that are left at the pace of the last finished cell; never more as time goes by without another.

        ``None`` where nothing is known, and when more time has passed than was expected.
        """
        if self._pace is None:
            return None
        expected = self._pace * max(self._work - self._worked, 0.0)
        left = expected - (time.monotonic() - self._since)
        return left if left > 0 else None

    def line(self) -> str:
        """``3/20 cells, 40 s so far, about 3 min left``."""
        left = self.left
        text = "" if left is None else f", about {format_seconds(left)} left"
        return f"{self.done}/{self.total} cells, {format_seconds(self.elapsed)} so far{text}"


@contextmanager
def show_progress(advance: Advance, stream: TextIO | None = None, *, quiet: bool = False) -> Iterator[None]:
    """Show ``advance`` on ``stream`` (standard error, if there is one) while the body runs."""
    stream = stream or sys.stderr
    if quiet or stream is None:
        yield
        return
    stop = Event()
    console = Console(file=stream)
    # A dumb terminal cannot draw over what it has shown.
    if stream.isatty() and not console.is_dumb_terminal:
        body = _bar(advance, console, stop)
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


def say(stream: TextIO | None, line: str) -> None:
    """Print a line, where there is somebody to read it: a run does not end because its terminal is gone."""
    if stream is not None:
        with suppress(OSError):
            print(line, file=stream, flush=True)


def _lines(advance: Advance, stream: TextIO, stop: Event) -> None:
    while not stop.wait(INTERVAL):
        say(stream, advance.line())


class _Bar(ProgressColumn):
    """A bar that shows how far it is also without colours, where rich draws what is left as nothing."""

    def __init__(self, *, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def render(self, task: Task) -> ProgressBar | Text:
        if self._colours:
            return ProgressBar(total=task.total, completed=task.completed, width=_BAR)
        filled = round(_BAR * task.completed / task.total) if task.total else 0
        return Text("[" + "#" * filled + "." * (_BAR - filled) + "]")


def _bar(advance: Advance, console: Console, stop: Event) -> Thread:
    columns = (
        _Bar(colours=not console.no_color and console.color_system is not None),
        MofNCompleteColumn(),
        TextColumn("cells"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )

    def draw() -> None:
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("", total=advance.total, completed=advance.done)
            while not stop.wait(0.5):
                left = advance.left
                text = "" if left is None else f"about {format_seconds(left)} left"
                bar.update(task, completed=advance.done, description=text)

    return Thread(target=draw, daemon=True)
