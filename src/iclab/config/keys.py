"""Walking a configuration's types: which dotted names exist, and what stands at one of them.

A section is a `Config`. A section that comes in kinds is a union told apart by a discriminator, usually ``kind``.
Sections may also stand in mappings (``learners.zero.kind``) and lists (``layers.0.width``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from iclab.config.field_types import FieldType
from iclab.errors import InputError, did_you_mean, listed


@dataclass(frozen=True)
class Name:
    """A dotted name that can be set.

    Attributes:
        dotted: ``learners.mamba.rho``.
        section: the section that has the field; of an entry of a plain mapping, that which has the mapping.
        field: the name of the field in it.
        kinds: the sections that may stand there, where the field tells them apart.
    """

    dotted: str
    section: type[BaseModel]
    field: str
    kinds: tuple[type[BaseModel], ...] = ()


def names_of(model: type[BaseModel], tree: object = None) -> list[Name]:
    """Every name that can be set; ``tree`` tells which kinds are in use, and which entries mappings have."""
    root = FieldType((model,))
    return list(_names(root, tree if isinstance(tree, dict) else {}, Name("", model, "")))


def dotted_names(model: type[BaseModel], tree: object = None) -> list[str]:
    """Every name that can be set, ``prompts.link`` and the like; ``tree`` tells which kinds are in use."""
    return [name.dotted for name in names_of(model, tree)]


def unknown_key(key: str, model: type[BaseModel], tree: object = None) -> InputError:
    """The error for a name that does not exist."""
    names = dotted_names(model, tree)
    sections = {name[:index] for name in names for index, letter in enumerate(name) if letter == "."}
    suggestion = did_you_mean(key, [*names, *sorted(sections)]) or f"; expected one of {listed(names)}"
    return InputError(f"unknown key {key!r}{suggestion}")


def look_up(tree: object, key: str) -> Any:
    """The value of a dotted name in a JSON dump; ``None`` where this kind of section has no such name."""
    node: Any = tree
    for part in key.split("."):
        if isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        elif isinstance(node, dict) and part in node:
            node = node[part]
        else:
            return None
    return node


def _names(field_type: FieldType, node: object, name: Name) -> Iterator[Name]:
    possible, field_type = field_type, field_type.chosen(node)
    prefix = f"{name.dotted}." if name.dotted else ""
    if field_type.sections:
        values = node if isinstance(node, dict) else {}
        for field in dict.fromkeys(field for section in field_type.sections for field in section.model_fields):
            child = field_type.child(field)
            if child is not None:
                section = next(section for section in field_type.sections if field in section.model_fields)
                kinds = possible.sections if field == possible.discriminator else ()
                below = Name(prefix + field, section, field, kinds)
                yield from _names(child, values.get(field, field_type.default(field)), below)
    elif field_type.items is not None and field_type.items.sections and isinstance(node, dict):
        for key, item in node.items():
            yield from _names(field_type.items, item, replace(name, dotted=f"{prefix}{key}"))
    else:
        yield name
