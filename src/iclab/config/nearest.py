"""Suggestions for names that do not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """``", did you mean 'prompts.link'?"`` with the nearest valid name, or nothing where none is near."""
    lowered = name.lower()
    best = max(valid, key=lambda candidate: _likeness(lowered, candidate.lower()), default=None)
    if best is None or _likeness(lowered, best.lower()) < 0.5:
        return ""
    return f", did you mean {best!r}?"


def listed(names: Iterable[object], most: int = 12) -> str:
    """``'mean', 'off by one'``: quoted, since a name may hold a comma; the first ``most`` of many."""
    shown = list(map(repr, names))
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return (", ".join(shown[:most]) or "none") + more


def alternatives(name: str, valid: Iterable[object]) -> str:
    """What to write instead of ``name``: the nearest valid one, or all of them where none is near."""
    names = list(valid)
    return did_you_mean(name, map(str, names)) or f"; expected one of {listed(names)}"


def _likeness(name: str, candidate: str) -> float:
    # `link` for `prompts.link`: the last part alone counts too, a little less than the whole.
    whole = SequenceMatcher(None, name, candidate).ratio()
    last = SequenceMatcher(None, name.rsplit(".", 1)[-1], candidate.rsplit(".", 1)[-1]).ratio()
    return max(whole, 0.9 * last)
