"""Sizes that cannot be meant, refused before anything is computed: by memory, by time, or by what a key means."""

from __future__ import annotations

from collections.abc import Sequence

from iclab.errors import InputError
from iclab.memory import check_memory

LONGEST_SECONDS = 365.25 * 86400
"""Of one step of a cell on one core; longer is taken for a slip of the keyboard."""

MOST_EXAMPLES = 10**12
"""As far as the exact curves go."""


def check_bytes(key: str, value: float, num_bytes: float) -> None:
    """Refuse ``key`` at ``value`` where it needs ``num_bytes`` of memory and the machine has less."""
    check_memory(f"{key} = {_count(value)}", num_bytes)


def check_duration(key: str, value: float, seconds: float) -> None:
    """Refuse ``key`` at ``value`` where its step would take more than a year of one core."""
    if seconds > LONGEST_SECONDS:
        years = seconds / LONGEST_SECONDS
        raise InputError(
            f"{key} is {_count(value)}: that would take about {_count(round(years))} years of one core; expected less "
            f"than a year, so lower {key}"
        )


def check_lengths(key: str, lengths: Sequence[int], low: int, why: str = "") -> None:
    """Refuse context lengths that repeat, or lie below ``low`` (``why`` says what is missing there)."""
    if len(set(lengths)) < len(lengths):
        raise InputError(f"{key} is {_listed(lengths)}; expected distinct lengths")
    if min(lengths, default=low) < low:
        reason = f" ({why})" if why else ""
        raise InputError(f"{key} is {_listed(lengths)}; expected distinct lengths >= {low}{reason}")
    if max(lengths, default=low) > MOST_EXAMPLES:
        raise InputError(f"{key} is {_listed(lengths)}; expected lengths of at most {_count(MOST_EXAMPLES)}")


def _count(value: float) -> str:
    return f"{value:,}" if abs(value) < 1e7 else f"{value:.3g}"


def _listed(lengths: Sequence[int]) -> str:
    shown = ", ".join(str(n) if n < 10**13 else f"{n:.3g}" for n in lengths[:12])
    return f"[{shown}{', ...' if len(lengths) > 12 else ''}]"
