"""Memory: a size that does not fit is refused before anything is allocated, and named where an allocation failed; what
training frees stays at hand."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING

from iclab.errors import InputError

if TYPE_CHECKING:
    import torch

_ASKED = re.compile(r"tried to allocate (\d[\d.]*) ?([KMGT]i?B|bytes)?", re.IGNORECASE)
_CPU_MESSAGES = ("can't allocate memory", "not enough memory", "out of memory")

_sizes: ContextVar[list[float] | None] = ContextVar("iclab_sizes", default=None)

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of glibc's malloc.h


def check_memory(what: str, num_bytes: float) -> None:
    """Raise `InputError` when ``num_bytes`` exceed this machine's memory, naming both."""
    sizes = _sizes.get()
    if sizes is not None:
        sizes.append(num_bytes)
    total = total_memory()
    if total and num_bytes > total:
        raise InputError(
            f"{what} would take {format_bytes(num_bytes)} of memory and this machine has {format_bytes(total)}; "
            "lower the number of prompts, examples or dimensions"
        )


@contextmanager
def recorded_sizes() -> Iterator[list[float]]:
    """Inside, the list holds the bytes that `check_memory` was asked about: the largest tensors of what is checked."""
    sizes: list[float] = []
    token = _sizes.set(sizes)
    try:
        yield sizes
    finally:
        _sizes.reset(token)


class MemoryShortage(InputError):
    """An allocation failed. The message says what was being done, how much was asked for and what to lower.

    Attributes:
        asked: ``20.00 GiB of memory``, or ``memory`` where the size is not known.
    """

    def __init__(self, message: str, asked: str = "memory") -> None:
        super().__init__(message)
        self.asked = asked


def shortage(error: Exception, what: str, device: torch.device, settings: str) -> MemoryShortage | None:
    """What to raise in place of torch's ``error``; ``None`` where it is not about memory.

    A `MemoryShortage` from further inside is worded anew: who called knows better what can be lowered.

    Args:
        error: what was caught.
        what: was being done.
        device: where.
        settings: what to lower, with present values.
    """
    if isinstance(error, MemoryShortage):
        asked = error.asked
    elif _is_out_of_memory(error):
        found = _ASKED.search(str(error))
        asked = "memory" if found is None else f"{found[1]} {found[2] or 'bytes'} of memory"
    else:
        return None
    return MemoryShortage(f"{what} asked for {asked} that {device} does not have; {settings}", asked)


@contextmanager
def memory_advice(what: str, device: torch.device, settings: str) -> Iterator[None]:
    """Turn torch's errors about memory into a `MemoryShortage`; the arguments are those of `shortage`."""
    try:
        yield
    except (RuntimeError, MemoryError, MemoryShortage) as error:
        short = shortage(error, what, device, settings)
        if short is None:
            raise
        raise short from None


def _is_out_of_memory(error: Exception) -> bool:
    # Torch's own class by its name: the report reads sizes from here, and is drawn without torch.
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    text = str(error)
    return "alloc" in text.lower() and any(message in text for message in _CPU_MESSAGES)


@cache
def keep_freed_memory() -> bool:
    """Let this process keep the memory that it frees, up to 2 GiB, and say whether it does from now on.

    A training step frees and takes hundreds of megabytes. By default glibc returns them to the system, which then has
    to clear and map every page again: a fifth of the step of a small model. Nothing changes where the environment sets
    glibc's allocator itself (``MALLOC_...``, ``GLIBC_TUNABLES``), or where the C library is another.
    """
    own = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if own or platform.libc_ver()[0] != "glibc":
        return False
    allocator = ctypes.CDLL(None)
    sizes = {_MMAP_THRESHOLD: 1 << 30, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 1 << 28}
    return all(allocator.mallopt(name, size) for name, size in sizes.items())


def total_memory() -> int:
    """Physical memory in bytes; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def format_bytes(num_bytes: float) -> str:
    """``1536 -> '1.5 KB'``, in powers of 1024."""
    for unit in ("B", "KB", "MB", "GB", "TB", "PB"):
        if num_bytes < 1024:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.3g} EB"
