"""Ends this process when it does not answer a signal, as inside one long call of a numeric library."""

from __future__ import annotations

import os
import signal
import time
from threading import Thread

from iclab.runs.signals import Stopping, ending

PATIENCE = 5.0
"""Seconds for Python to get to its handler. Every file is whole or absent, so ending at once loses only what runs."""


def watch(stopping: Stopping) -> None:
    """Start to watch that ``stopping`` handles the signals of this process, which its main thread listens to."""
    arrived, noted = os.pipe()
    os.set_blocking(noted, False)
    signal.set_wakeup_fd(noted, warn_on_full_buffer=False)
    # A forked child shares the pipe: its signals are none of ours.
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    Thread(target=_wait, args=(arrived, stopping), name="unanswered signals", daemon=True).start()


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
