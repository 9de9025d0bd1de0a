"""The one error that means "the input is wrong": a single line that a person can act on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from numbers import Real

_NUMBER = re.compile(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*")


class InputError(ValueError):
    """Wrong input. The message says what was found, what was expected and what to do next, on one line.

    It is a ``ValueError``, so library users catch it as usual; the command line prints it and exits with code 2.
    """


def check_integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return ``value`` as an ``int`` in ``[low, high]``; raise `InputError` otherwise (booleans are refused)."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(f"{name} is {value!r}; expected an integer >= {low}")
    number = int(value.__index__())  # type: ignore[attr-defined]
    if number < low or (high is not None and number > high):
        bound = f">= {low}" if high is None else f"in [{low}, {high}]"
        raise InputError(f"{name} is {number}; expected an integer {bound}")
    return number


def check_flag(name: str, value: object) -> bool:
    """Return ``value``; raise `InputError` unless it is ``True`` or ``False``."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; expected True or False")
    return value


def check_positive(name: str, value: float) -> float:
    """Return ``value`` as a finite positive ``float``; raise `InputError` otherwise."""
    try:
        if type(value).__name__ in ("bool", "bool_"):  # Python's and NumPy's, which is not imported for this
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is {cut(value)}; expected a positive number") from None
    if not 0.0 < number < float("inf"):
        raise InputError(f"{name} is {number}; expected a finite number > 0")
    return number


def check_number(name: str, value: object) -> float:
    """Return ``value`` as a finite ``float``; raise `InputError` otherwise (booleans are refused)."""
    if type(value).__name__ in ("bool", "bool_") or not isinstance(value, Real):
        raise InputError(f"{name} is {cut(value)}; expected a finite number")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not abs(number) < float("inf"):
        raise InputError(f"{name} is {number}; expected a finite number")
    return number


def read_number(name: str, text: str) -> float:
    """Return the finite decimal number in ``text`` as a ``float``.

    Raises:
        InputError: for anything else, and for a number that float64 can only take for infinite or zero.
    """
    if not _NUMBER.fullmatch(text):
        raise InputError(f"{name} is {cut(text)}; expected a number such as -0.5 or 1e-3")
    number = float(text)
    if abs(number) == float("inf"):
        raise InputError(f"{name} is {cut(text)}, too large for a float; expected a number below 1.8e308")
    if number == 0 and is_not_zero(text):
        raise InputError(f"{name} is {cut(text)}, too small for a float; expected 0 or at least 1e-307 in size")
    return number


def is_not_zero(text: str) -> bool:
    """Whether the mantissa of a decimal number has a digit that is not 0."""
    return any(digit in "123456789" for digit in re.split("[eE]", text)[0])


def cut(value: object) -> str:
    """``repr(value)`` on one line, shortened to about 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def one_line(text: str, longest: int = 300) -> str:
    """Return ``text`` on one line of at most ``longest`` characters, with escapes for what cannot be printed.

    A longer string keeps both ends: what was found stands at the beginning, what to do at the end.
    """
    if len(text) > 16 * longest:
        text = f"{text[: 8 * longest]}{text[-8 * longest :]}"
    line = " ".join(text.split())
    line = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in line)
    if len(line) <= longest:
        return line
    tail = longest // 3
    return f"{line[: longest - tail - 5]} ... {line[len(line) - tail :]}"


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return ``", did you mean 'prompts.link'?"`` with the nearest valid name, or nothing where none is near."""
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
