"""Being told to stop: Ctrl-C, SIGTERM and SIGHUP end a run in one way, which a cell's own exceptions do not take."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_IMPATIENT = 3.0
"""Seconds during which a repeated signal is taken for impatience: it must not cut short the tidying up."""
PATIENCE = 5.0
"""Seconds for Python to get to its handler. Every file is whole or absent, so ending at once loses only what runs."""


class Stopped(KeyboardInterrupt):
    """The user, or the system, told this process to stop.

    Args:
        number: of the signal.
        message: for the terminal; ``interrupted`` or ``terminated`` by default.
    """

    def __init__(self, number: int, message: str = "") -> None:
        super().__init__(message or ending(number))
        self.number = number


def ending(number: int) -> str:
    """One word for what a signal did."""
    return "interrupted" if number == signal.SIGINT else "terminated"


class Stopping:
    """Raises `Stopped` for a signal; a second one within `_IMPATIENT` seconds does nothing."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._last = -_IMPATIENT

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._last >= _IMPATIENT:
            self.number, self._last = number, now
            raise Stopped(number)

    def check(self) -> None:
        """Raise again what the code of a cell has caught."""
        if self.number is not None:
            raise Stopped(self.number)


def listen() -> Stopping:
    """Turn signals into `Stopped` from now on; signals that are ignored stay so, as under ``nohup``."""
    stopping = Stopping()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stopping)
    return stopping


@contextmanager
def stoppable() -> Iterator[Stopping]:
    """Turn signals into `Stopped` while the body runs.

    Only the main thread receives signals: elsewhere nothing is changed. Who listens already goes on listening.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    active = next((handler for handler in before.values() if isinstance(handler, Stopping)), None)
    if active is not None or threading.current_thread() is not threading.main_thread():
        yield active or Stopping()
        return
    stopping = listen()
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            # A handler that was not set from Python cannot be given back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def deafen() -> None:
    """Ignore signals: a process that is done has nothing left to stop."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def watch(stopping: Stopping) -> None:
    """End this process when ``stopping`` does not answer a signal within `PATIENCE`.

    Python answers nothing inside one long call of a numeric library. The main thread is the one that listens.
    """
    arrived, noted = os.pipe()
    os.set_blocking(noted, False)
    signal.set_wakeup_fd(noted, warn_on_full_buffer=False)
    # A forked child shares the pipe: its signals are none of ours.
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    threading.Thread(target=_wait, args=(arrived, stopping), name="unanswered signals", daemon=True).start()


def _wait(arrived: int, stopping: Stopping) -> None:
    while numbers := os.read(arrived, 1):
        number = numbers[0]
        if signal.getsignal(number) is not stopping:
            continue
        end = time.monotonic() + PATIENCE
        while stopping.number is None and time.monotonic() < end:
            time.sleep(0.05)
        if stopping.number is None:
            os.write(2, f"{ending(number)}\n".encode())
            os._exit(128 + number)
