"""Sections of configuration derived from settings: the same names, limits and meanings, written once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, fields
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import Field, create_model

from iclab.experiments.kind import Config
from iclab.settings.fields import hints_of, meanings_of


class DerivedSection(Config):
    """Base of the sections that `derived` makes."""

    source: ClassVar[Any]

    def settings(self, **others: Any) -> Any:
        """Return the settings that this section describes.

        Args:
            others: settings that are no fields of the section, or in other form.

        Raises:
            InputError: for values that fit their types and not each other.
        """
        names = [field.name for field in fields(self.source) if field.name in type(self).model_fields]
        return self.source(**({name: getattr(self, name) for name in names} | others))


def derived(source: type, *, without: Collection[str] = (), **defaults: Any) -> Any:
    """Make a section of the fields of a settings class, to be used as the base of a class.

    Args:
        source: the dataclass of the settings, see `iclab.settings.fields`.
        without: fields that are left out.
        defaults: in place of those of the settings.

    Returns:
        A subclass of `DerivedSection`; typed ``Any``, since its fields are known when it runs.
    """
    meanings, hints = meanings_of(source), hints_of(source)
    found: dict[str, Any] = {}
    for field in fields(source):
        if field.name in without:
            continue
        usual = defaults.get(field.name, ... if field.default is MISSING else field.default)
        found[field.name] = (_limited(hints[field.name]), Field(usual, description=meanings.get(field.name)))
    section: Any = create_model(source.__name__, __base__=DerivedSection, __module__=__name__, **found)
    section.source = source
    return section


def _limited(hint: Any) -> Any:
    """The type with the limits as pydantic has them."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated[_limited(arguments[0]), Field(**arguments[1].bounds())]
    if origin in (Union, UnionType):
        return reduce(or_, [_limited(member) for member in arguments])
    if origin is tuple:
        inner = _tuple[tuple(member if member is Ellipsis else _limited(member) for member in arguments)]
        return _annotated[inner, Field(min_length=1)] if arguments[-1] is Ellipsis else inner
    return hint


_annotated: Any = Annotated
_tuple: Any = tuple
