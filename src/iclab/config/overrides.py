"""``key=value`` arguments: what they set, and which of them sweep.

===========================  ==============================================
``prompts.ambient_dim=32``   sets the key
``prompts.noise=1e-4``       a number
``num_examples=[64,256]``    sets the key to a list
``prompts.link="he3, he4"``  quotes keep a comma in a string
``seed=0..9``                sweeps 0, 1, ..., 9
``seed=0..4,7``              sweeps 0, 1, 2, 3, 4, 7
``d=8..32..8``               sweeps 8, 16, 24, 32; see `iclab.config.ranges`
``prompts.link=he3,he4``     sweeps two strings
``num_examples=[0..3]``      a range inside a list
``prompts={noise: 0.1}``     merges into the section: its other keys stay
``prompts:={noise: 0.1}``    replaces the section
``~learners.joint``          deletes an entry of a mapping
``--a.b=c``                  the same as ``a.b=c``
===========================  ==============================================

An axis whose name is no key of the configuration pairs keys: its values are mappings of whole keys, each with an
optional ``label``, as in ``size={label: small, prompts.ambient_dim: 8},{label: large, prompts.ambient_dim: 16}``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from iclab.config.changes import Change, Mode, Path, changes_of, split_mode
from iclab.config.names import check_name
from iclab.config.ranges import expand_lists, expand_range, quote_calls
from iclab.config.yaml_values import load_yaml
from iclab.errors import InputError

SCALE_KEY = "scale"
LABEL = "label"
_DELETES = "~"
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Override:
    """``key`` takes ``values[0]``, or each of ``values`` in turn where it is an axis of the grid.

    Attributes:
        mode: whether a mapping merges into what is there or replaces it; ``delete`` takes no value.
        paired: whether ``key`` is the free name of an axis whose values are mappings of whole keys.
        labels: what columns and titles call each value of a paired axis; empty for the values themselves.
    """

    key: str
    values: tuple[Any, ...]
    is_axis: bool
    mode: Mode = "merge"
    paired: bool = False
    labels: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The parts of the key."""
        return tuple(self.key.split("."))

    def changes(self, value: Any) -> list[Change]:
        """What one of the values changes."""
        if not self.paired:
            return changes_of(self.path, value, self.mode)
        return [change for name, item in value.items() for change in _changes_of_key(name, item)]

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


def _changes_of_key(name: str, value: object) -> list[Change]:
    key, mode = split_mode(name)
    return changes_of(tuple(key.split(".")), value, mode)


def pair(axis: Override) -> Override:
    """Return ``axis``, whose name is no key of the configuration, as one that pairs keys.

    Raises:
        InputError: for values that are no mappings of keys, and for labels that repeat or are no strings.
    """
    if not all(isinstance(value, dict) and value.keys() - {LABEL} for value in axis.values):
        raise InputError(
            f"the axis {axis.key!r} is no key of the configuration, and not all its values are mappings of keys; "
            "expected a key that `iclab show` lists, or mappings such as {label: small, prompts.ambient_dim: 8}"
        )
    mappings = tuple({key: item for key, item in value.items() if key != LABEL} for value in axis.values)
    given = [value.get(LABEL) for value in axis.values]
    for label in given:
        if isinstance(label, bool) or not isinstance(label, str | int | float | None):
            raise InputError(f"a label of the axis {axis.key!r} is {label!r}; expected a string")
    labels: tuple[str, ...] = ()
    if any(label is not None for label in given):
        labels = tuple(
            str(label) if label is not None else ", ".join(f"{key}={item}" for key, item in mapping.items())
            for label, mapping in zip(given, mappings, strict=True)
        )
    for label in labels:
        check_name(f"a label of the axis {axis.key!r}", label, forbidden="")
    if len(set(labels)) < len(labels):
        raise InputError(f"the axis {axis.key!r} has a label twice ({', '.join(labels)}); give each value its own")
    return replace(axis, values=mappings, paired=True, labels=labels)


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
        numbers = expand_range(item)
        if numbers is None:
            values.append(expand_lists(_read_yaml(key, quote_calls(item) if item[0] in _OPENING else item)))
        else:
            has_range = True
            values.extend(numbers)
    if not values:
        raise InputError(f"{key}={text} is a grid with no cell; expected a range first..last with first <= last")
    return Override(key, tuple(values), has_range or len(items) > 1)


def _split(key: str, text: str) -> list[str]:
    """Split at the commas outside brackets and quotes."""
    items, depth, quote, start = [], 0, "", 0
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            items.append(text[start:index])
            start = index + 1
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
        raise InputError(f"{key}={_cut(item)} cannot be read as YAML ({error}); put a string in quotes") from None


def check_text(what: str, text: str) -> None:
    """Refuse a string with bytes that are not valid UTF-8, which the command line hands on as halves of characters.

    Raises:
        InputError: naming ``what`` it is.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{what} {_cut(ascii(text))} holds bytes that are not valid UTF-8; expected a readable string"
        ) from None


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
