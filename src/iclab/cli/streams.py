"""Standard streams that may be closed, as by ``2>&-`` or in a service."""

from __future__ import annotations

import io
import os
import select
import sys


def open_standard_streams() -> None:
    """Give each closed standard stream an end that takes everything and says nothing.

    Otherwise the next file that is opened would get its number, and what is printed would go into that file.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is given, and those below are open.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (stays open as long as the process)
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            # A title may hold characters that the code page of the terminal lacks: they are shown as escapes.
            stream.reconfigure(errors="backslashreplace")


def reader_is_gone() -> bool:
    """Whether standard output is a pipe that nobody reads any more."""
    poll = select.poll()
    poll.register(1, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
