"""Fields of settings: types with limits, checked in one place.

Settings are frozen dataclasses whose annotations say all that a value may be: ``Annotated[int, Limits(ge=1)]``,
``Literal[...]``, tuples of these, and ``None``. The meaning of each field stands in the docstring under ``Attributes``,
which does not count in the version of the code: a better word costs no training.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import operator
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from iclab.errors import InputError, alternatives, cut

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a number.

    Attributes:
        ge, gt: at least, above.
        le, lt: at most, below.
        multiple_of: what an integer is a multiple of.
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    multiple_of: int | None = None

    def bounds(self) -> dict[str, float]:
        """Return the bounds that are set, by their names."""
        return {name: bound for name, bound in vars(self).items() if bound is not None}

    def allow(self, number: float) -> bool:
        """Return whether a finite number is within the bounds."""
        return (
            (self.ge is None or number >= self.ge)
            and (self.gt is None or number > self.gt)
            and (self.le is None or number <= self.le)
            and (self.lt is None or number < self.lt)
            and (self.multiple_of is None or number % self.multiple_of == 0)
        )

    def __str__(self) -> str:
        signs = {"ge": ">= ", "gt": "> ", "le": "<= ", "lt": "< ", "multiple_of": "a multiple of "}
        return " and ".join(f"{signs[name]}{bound:g}" for name, bound in self.bounds().items())


Count = Annotated[int, Limits(ge=1)]
Positive = Annotated[float, Limits(gt=0)]


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """Return the types of the fields of ``cls`` by their names, with their limits."""
    return get_type_hints(cls, include_extras=True)


def meanings_of(cls: type) -> dict[str, str]:
    """Return what the docstring of ``cls`` says of each field, under ``Attributes``, on one line each."""
    block = (inspect.getdoc(cls) or "").partition("\nAttributes:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", block, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def check_fields(values: Any) -> None:
    """Check every field of a settings object against its type, and store numbers as their type has them.

    Raises:
        InputError: naming the first field that is wrong, what was found and what was expected.
    """
    for name, hint in hints_of(type(values)).items():
        found = getattr(values, name)
        checked = _checked(found, hint, Limits())
        if checked is _WRONG:
            raise InputError(f"{name} is {cut(found)}; expected {_expected(hint)}")
        object.__setattr__(values, name, checked)


def with_changes(cls: type[T], given: T | None, changes: Mapping[str, Any], caller: str) -> T:
    """Return ``given`` with some fields changed, or new settings where it is ``None``.

    Args:
        cls: the class of the settings.
        given: an object of it, or ``None``.
        changes: fields by name.
        caller: what they were given to, for messages.

    Raises:
        InputError: for another object, an unknown or missing name, and values out of range.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in changes:
        if name not in fields:
            raise InputError(f"{caller} has no setting {name!r}{alternatives(name, fields)}")
    if given is not None:
        if not isinstance(given, cls):
            raise InputError(f"the settings of {caller} are {cut(given)}; expected {cls.__name__}(...) or None")
        return dataclasses.replace(given, **changes) if changes else given  # type: ignore[type-var]
    missing = [name for name, field in fields.items() if field.default is MISSING and name not in changes]
    if missing:
        raise InputError(f"{caller} was given no {' and no '.join(missing)}; expected {missing[0]}=..., or settings")
    return cls(**changes)


def as_json(values: Any) -> dict[str, Any]:
    """Return a settings object as JSON holds it; values that have a method ``asdict`` by that."""
    plain = {field.name: getattr(values, field.name) for field in dataclasses.fields(values)}
    return json.loads(json.dumps(plain, default=lambda value: value.asdict()))


_WRONG = object()


def _checked(value: Any, hint: Any, limits: Limits) -> Any:
    """The value as its type has it, or `_WRONG`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _checked(value, arguments[0], arguments[1])
    if origin in (Union, UnionType):
        found = (_checked(value, member, limits) for member in arguments)
        return next((checked for checked in found if checked is not _WRONG), _WRONG)
    if hint is NoneType:
        return None if value is None else _WRONG
    if origin is Literal:
        plain = isinstance(value, Hashable) and not isinstance(value, bool)
        return next((choice for choice in arguments if plain and choice == value), _WRONG)
    if origin is tuple:
        return _checked_tuple(value, arguments, limits)
    if hint is int:
        return _checked_int(value, limits)
    if hint is float:
        return _checked_float(value, limits)
    return value if isinstance(value, hint) else _WRONG


def _checked_int(value: Any, limits: Limits) -> Any:
    if isinstance(value, bool):
        return _WRONG
    try:
        number = operator.index(value)
    except TypeError:
        return _WRONG
    return number if limits.allow(number) else _WRONG


def _checked_float(value: Any, limits: Limits) -> Any:
    # NumPy's numbers and tensors of one number are taken, too.
    if type(value).__name__ in ("bool", "bool_") or not hasattr(value, "__float__"):
        return _WRONG
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return _WRONG
    return number if math.isfinite(number) and limits.allow(number) else _WRONG


def _checked_tuple(value: Any, arguments: tuple[Any, ...], limits: Limits) -> Any:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        return _WRONG
    found = list(value)
    inner = [arguments[0]] * len(found) if arguments[-1] is Ellipsis else list(arguments)
    if not found or len(inner) != len(found):
        return _WRONG
    parts = tuple(_checked(part, hint, limits) for part, hint in zip(found, inner, strict=True))
    return _WRONG if any(part is _WRONG for part in parts) else parts


def _expected(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return f"{_expected(arguments[0])} {arguments[1]}"
    if origin in (Union, UnionType):
        return " or ".join(_expected(member) for member in arguments)
    if hint is NoneType:
        return "None"
    if origin is Literal:
        return f"{'one of ' if len(arguments) > 1 else ''}{', '.join(map(str, arguments))}"
    if origin is tuple:
        count = "one or more values" if arguments[-1] is Ellipsis else f"{len(arguments)} values"
        return f"{count}, each {_expected(arguments[0])}"
    return {int: "an integer", float: "a finite number"}.get(hint, f"a {getattr(hint, '__name__', hint)}")
