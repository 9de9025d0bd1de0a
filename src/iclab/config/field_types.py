"""`FieldType`: what may stand at one key of a configuration, read from its type annotation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python


@dataclass(frozen=True)
class FieldType:
    """What stands at one key of a configuration.

    Attributes:
        sections: the `Config` classes that may stand here; none where a plain value stands.
        discriminator: the field that tells the sections apart, if they come in kinds.
        items: what stands in the mapping or list here, if one may.
        anything: whether the type says nothing, so that every name below is allowed.
        nullable: whether ``None`` may stand here.
    """

    sections: tuple[type[BaseModel], ...] = ()
    discriminator: str | None = None
    items: FieldType | None = None
    anything: bool = False
    nullable: bool = False

    def chosen(self, node: object) -> FieldType:
        """The same with the section in use alone, where the discriminator in ``node`` tells."""
        if self.discriminator is None or not isinstance(node, dict):
            return self
        tag = node.get(self.discriminator)
        matching = tuple(s for s in self.sections if tag in get_args(s.model_fields[self.discriminator].annotation))
        return replace(self, sections=matching or self.sections)

    def child(self, name: str) -> FieldType | None:
        """What stands below ``name``; ``None`` if there is no such name."""
        field = self._field(name)
        if field is not None:
            return _field_type(field.annotation, field.discriminator if isinstance(field.discriminator, str) else None)
        return self if self.anything else self.items

    def is_entry(self, name: str) -> bool:
        """Whether ``name`` is one that the user chooses, of a mapping, and no field of a section."""
        return self._field(name) is None

    def default(self, name: str) -> Any:
        """The default below ``name`` as JSON values, or an empty section."""
        field = self._field(name)
        if field is None or field.is_required():
            return {}
        default = to_jsonable_python(field.get_default(call_default_factory=True))
        return {} if default is None else default

    def _field(self, name: str) -> FieldInfo | None:
        return next((s.model_fields[name] for s in self.sections if name in s.model_fields), None)


def _field_type(annotation: object, discriminator: str | None = None) -> FieldType:
    if annotation is Any:
        return FieldType(anything=True, nullable=True)
    if annotation is None or annotation is NoneType:
        return FieldType(nullable=True)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return FieldType((annotation,), discriminator)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        infos = [info for info in arguments[1:] if isinstance(info, FieldInfo)]
        found = next((info.discriminator for info in infos if isinstance(info.discriminator, str)), discriminator)
        return _field_type(arguments[0], found)
    if origin in (Union, UnionType):
        members = [_field_type(member) for member in arguments]
        return FieldType(
            tuple(section for member in members for section in member.sections),
            discriminator or next((m.discriminator for m in members if m.discriminator), None),
            next((m.items for m in members if m.items), None),
            any(m.anything for m in members),
            any(m.nullable for m in members),
        )
    if origin in (list, tuple) or annotation in (list, tuple):
        return FieldType(items=_field_type(arguments[0]) if arguments else FieldType(anything=True, nullable=True))
    if origin is dict or annotation is dict:
        return FieldType(items=_field_type(arguments[1]) if arguments else FieldType(anything=True, nullable=True))
    return FieldType()
