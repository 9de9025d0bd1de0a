"""``key=value`` arguments: what they set, and which of them sweep.

===========================  ==============================================
``prompts.ambient_dim=32``   sets the key
``prompts.noise=1e-4``       a number
``num_examples=[64,256]``    sets the key to a list
``prompts.link="he3, he4"``  quotes keep a comma in a text
``seed=0..9``                sweeps 0, 1, ..., 9
``seed=0..4,7``              sweeps 0, 1, 2, 3, 4, 7
``prompts.link=he3,he4``     sweeps two texts
``prompts={noise: 0.1}``     merges into the section: its other keys stay
``prompts:={noise: 0.1}``    replaces the section
``~learners.joint``          deletes an entry of a mapping
``--a.b=c``                  the same as ``a.b=c``
===========================  ==============================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from iclab.config.changes import Change, Mode, Path, changes_of
from iclab.config.yaml_values import load_yaml
from iclab.errors import InputError

MAX_CELLS = 10_000
SCALE_KEY = "scale"
_RANGE = re.compile(r"(-?\d{1,300})\.\.(-?\d{1,300})")
_DELETES = "~"
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Override:
    """``key`` takes ``values[0]``, or each of ``values`` in turn where it is an axis of the grid.

    ``mode`` says whether a mapping merges into what is there or replaces it; ``delete`` takes no value.
    """

    key: str
    values: tuple[Any, ...]
    is_axis: bool
    mode: Mode = "merge"

    @property
    def path(self) -> Path:
        """The parts of the key."""
        return tuple(self.key.split("."))

    def changes(self, value: object) -> list[Change]:
        """What one of the values changes."""
        return changes_of(self.path, value, self.mode)

    @property
    def paths(self) -> set[Path]:
        """What is set whichever of the values is taken."""
        return set.intersection(*({change.path for change in self.changes(value)} for value in self.values))

    @property
    def swept_keys(self) -> list[str]:
        """The keys that the values of an axis set; the axis' own where a name in a mapping has a dot."""
        paths = dict.fromkeys(change.path for value in self.values for change in self.changes(value))
        dotted = any("." in part for path in paths for part in path)
        return [self.key] if dotted else [".".join(path) for path in paths]


def parse_overrides(arguments: Iterable[str]) -> tuple[list[Override], str | None]:
    """The overrides, and the scale if ``scale=`` is among them.

    Raises:
        InputError: for an argument without ``=``, a key given twice, a value that YAML cannot read, or an empty grid.
    """
    overrides: dict[str, Override] = {}
    scale = None
    for argument in arguments:
        override = parse_override(argument)
        if override.key == SCALE_KEY:
            if override.is_axis or not isinstance(override.values[0], str):
                raise InputError(f"{argument!r} names no scale; expected one name, such as scale=laptop")
            scale = override.values[0]
        elif override.key in overrides:
            raise InputError(f"{override.key!r} is given twice; give it once, as {override.key}=a,b to sweep it")
        else:
            overrides[override.key] = override
    return list(overrides.values()), scale


def parse_override(argument: str) -> Override:
    """One ``key=value``."""
    check_text("the argument", argument)
    if argument.startswith(_DELETES):
        return _deletion(argument)
    key, equals, text = argument.removeprefix("--").partition("=")
    key = key.strip()
    key, mode = (key[:-1].rstrip(), "replace") if key.endswith(":") else (key, "merge")
    if not equals or not key or not all(key.split(".")):
        raise InputError(f"cannot read {argument!r}; expected key=value, such as prompts.ambient_dim=32")
    if not text.strip():
        raise InputError(f"{argument!r} is a grid with no cell; expected a value after '='")
    return replace(parse_values(key, text), mode=mode)


def _deletion(argument: str) -> Override:
    key, equals, _ = argument.removeprefix(_DELETES).partition("=")
    if equals or not all(key.split(".")):
        raise InputError(f"cannot read {argument!r}; expected ~ and an entry alone, such as ~learners.joint")
    return Override(key, (None,), False, "delete")


def parse_values(key: str, text: str) -> Override:
    """The value or values that ``text`` gives to ``key``."""
    items = _split(key, text)
    values: list[Any] = []
    has_range = False
    for item in items:
        bounds = _RANGE.fullmatch(item)
        if bounds:
            has_range = True
            first, last = int(bounds[1]), int(bounds[2])
            if last - first >= MAX_CELLS:
                raise InputError(
                    f"{key}={_cut(text)} has {_cut(str(last - first + 1))} values; expected at most {MAX_CELLS}"
                )
            values.extend(range(first, last + 1))
        else:
            values.append(_read_yaml(key, item))
    if not values:
        raise InputError(f"{key}={text} is a grid with no cell; expected a range first..last with first <= last")
    return Override(key, tuple(values), has_range or len(items) > 1)


def _split(key: str, text: str) -> list[str]:
    """Split at the commas outside brackets and quotes."""
    items, depth, quote, start = [], 0, "", 0
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            items.append(text[start:place])
            start = place + 1
    items = [item.strip() for item in [*items, text[start:]]]
    if quote or depth:
        raise InputError(f"{key}={text} has an unclosed quote or bracket; close it")
    if not all(items):
        raise InputError(f"{key}={text} has an empty item; expected values between the commas")
    return items


def _read_yaml(key: str, item: str) -> Any:
    try:
        return load_yaml(item)
    except ValueError as error:
        raise InputError(f"{key}={_cut(item)} cannot be read as YAML ({error}); put a text in quotes") from None


def check_text(what: str, text: str) -> None:
    """Refuse a text with bytes that are no UTF-8, which the command line hands on as halves of characters.

    Raises:
        InputError: naming ``what`` it is.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{what} {_cut(ascii(text))} holds bytes that are no UTF-8; expected a readable text"
        ) from None


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
