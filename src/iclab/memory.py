"""Memory: a size that does not fit is refused before anything is allocated; what training frees stays at hand."""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache

from iclab.errors import InputError

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of glibc's malloc.h


def check_memory(what: str, num_bytes: float) -> None:
    """Raise `InputError` when ``num_bytes`` exceed this machine's memory, naming both."""
    total = total_memory()
    if total and num_bytes > total:
        raise InputError(
            f"{what} would take {format_bytes(num_bytes)} of memory and this machine has {format_bytes(total)}; "
            "lower the number of prompts, examples or dimensions"
        )


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
