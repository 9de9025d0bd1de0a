"""A size that does not fit is refused before anything is allocated."""

from __future__ import annotations

import os

from iclab.errors import InputError


def check_memory(what: str, num_bytes: float) -> None:
    """Raise `InputError` when ``num_bytes`` exceed this machine's memory, naming both."""
    total = total_memory()
    if total and num_bytes > total:
        raise InputError(
            f"{what} would take {format_bytes(num_bytes)} of memory and this machine has {format_bytes(total)}; "
            "lower the number of prompts, examples or dimensions"
        )


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
