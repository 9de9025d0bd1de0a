"""Ranges of numbers in short, in grids and in lists.

=====================  =============================================================
``0..9``               the whole numbers 0 to 9
``0..9..3``            0, 3, 6, 9; ``9..0..-3`` counts down
``geom(16, 4096, 9)``  9 numbers with a constant ratio; whole ones if both ends are
``lin(0.0, 1.0, 5)``   5 numbers with a constant difference; whole ones if both ends are
=====================  =============================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from iclab.config.yaml_values import load_yaml
from iclab.errors import InputError

MAX_CELLS = 10_000
_STEPS = re.compile(r"(-?\d{1,300})\.\.(-?\d{1,300})(?:\.\.(-?\d{1,300}))?")
_CALL = re.compile(r"(geom|lin)\(([^()\[\]{}]*)\)")
_BEGINS = re.compile(r"\s*(geom|lin)\(")
_UNQUOTED_CALL = re.compile(r"\"[^\"]*\"|'[^']*'|(?<!\w)(?:geom|lin)\([^()\"']*\)")


def expand_range(text: str) -> list[Any] | None:
    """Return the numbers that ``text`` stands for; ``None`` if it is no range.

    Raises:
        InputError: for a range that has no numbers, too many, or equal ones after rounding.
    """
    text = text.strip()
    steps, call = _STEPS.fullmatch(text), _CALL.fullmatch(text)
    if steps:
        first, last, step = int(steps[1]), int(steps[2]), int(steps[3] or 1)
        if step == 0:
            raise InputError(f"the range {_cut(text)} has the step 0; expected another whole number")
        numbers = range(first, last + (1 if step > 0 else -1), step)
        # Not len(numbers): it may be longer than a C integer holds.
        count = (last - first) // step + 1
        if count > MAX_CELLS:
            raise InputError(f"the range {_cut(text)} has {_cut(str(count))} values; expected at most {MAX_CELLS}")
        return list(numbers)
    if call:
        return _spaced(text, call[1], call[2])
    begins = _BEGINS.match(text)
    if begins:
        raise InputError(
            f"the range {_cut(text)} is not complete; expected {begins[1]}(first, last, count), in quotes "
            "where it stands in a list of a file"
        )
    return None


def expand_lists(value: Any) -> Any:
    """Return ``value`` with every range that stands in a list replaced by its numbers."""
    if isinstance(value, dict):
        return {key: expand_lists(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    expanded: list[Any] = []
    for item in value:
        numbers = expand_range(item) if isinstance(item, str) else None
        expanded.extend([expand_lists(item)] if numbers is None else numbers)
    return expanded


def quote_calls(text: str) -> str:
    """Return ``text`` with quotes around every ``geom(...)`` and ``lin(...)``, whose commas YAML would split at."""
    return _UNQUOTED_CALL.sub(lambda found: found[0] if found[0][0] in "\"'" else f'"{found[0]}"', text)


def _spaced(text: str, name: str, inside: str) -> list[Any]:
    parts = [_number(text, part) for part in inside.split(",")]
    if len(parts) != 3:
        raise InputError(f"the range {_cut(text)} has {len(parts)} numbers; expected {name}(first, last, count)")
    first, last, count = parts
    if not isinstance(count, int) or not 2 <= count <= MAX_CELLS:
        raise InputError(
            f"the range {_cut(text)} asks for {count} values; expected a whole number from 2 to {MAX_CELLS}"
        )
    if name == "geom" and not first * last > 0:
        raise InputError(f"the range {_cut(text)} goes from {first} to {last}; expected two numbers > 0, or two < 0")
    between: Callable[[float], float] = (
        (lambda t: first * (last / first) ** t) if name == "geom" else (lambda t: first + (last - first) * t)
    )
    numbers = [first, *(between(index / (count - 1)) for index in range(1, count - 1)), last]
    if isinstance(first, int) and isinstance(last, int):
        numbers = [round(number) for number in numbers]
    if len(set(numbers)) < count:
        whole = f" or write {first}.0 for values between whole numbers" if isinstance(numbers[1], int) else ""
        raise InputError(f"the range {_cut(text)} gives a number twice; ask for fewer values{whole}")
    return numbers


def _number(text: str, part: str) -> int | float:
    try:
        value = load_yaml(part)
    except ValueError as error:
        raise InputError(f"the range {_cut(text)} cannot be read ({error})") from None
    # Their products and ratios are floating-point numbers.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e150:
        raise InputError(f"the range {_cut(text)} has {_cut(part.strip())!r}; expected a number below 1e150")
    return value


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
