"""One process at a time writes to a folder: of a run, or of a training.

The package filelock takes the same lock of the kernel, and does not say which process holds it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from iclab.errors import InputError

LOCK = "lock"


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the folder's lock. The kernel releases it when the process ends, however it ends.

    Args:
        folder: it exists.
        wait: until another process has released it.

    Raises:
        InputError: if another process holds it and ``wait`` is off, or the system or the file system has no locks.
    """
    try:
        import fcntl  # numeric rooms import this module on systems without it too
    except ImportError:
        raise InputError(f"this system cannot lock {folder}; expected one with flock, such as Linux or macOS") from None
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise InputError(
                f"another process ({_holder(descriptor)}) is writing to {folder}; wait or choose another folder"
            ) from None
        except OSError as error:
            raise InputError(
                f"the file system of {folder} has no locks ({error.strerror}); choose another folder"
            ) from None
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "start": datetime.now(UTC).isoformat()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, (json.dumps(holder) + "\n").encode(), 0)
        try:
            yield
        finally:
            # A process that a cell forked may still have the file open, which would keep the lock.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def is_lock(path: Path) -> bool:
    """Whether ``path`` is a lock file of `locked`, and not somebody's file of that name."""
    if path.name != LOCK or not path.is_file():
        return False
    try:
        holder = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(holder, dict) and {"pid", "host", "start"} == holder.keys()


def _holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        return f"pid {holder['pid']} on {holder['host']}"
    except (ValueError, KeyError, TypeError):
        return "its pid is not known"
