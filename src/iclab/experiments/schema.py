"""Walking a configuration's types: which dotted names exist, and how one of them is set.

A section is a `Config`; a section that comes in kinds is a union discriminated by a field, usually ``kind``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from iclab.errors import InputError
from iclab.experiments.nearest import did_you_mean

Sections = tuple[type[BaseModel], ...]


def dotted_names(model: type[BaseModel], tree: object = None) -> list[str]:
    """Every name that can be set, ``prompts.link`` and the like; ``tree`` tells which kinds are in use."""
    return list(_names((model,), tree, ""))


def unknown_key(key: str, model: type[BaseModel], tree: object = None) -> InputError:
    """The error for a name that does not exist."""
    names = dotted_names(model, tree)
    suggestion = did_you_mean(key, names) or f"; expected one of {', '.join(names)}"
    return InputError(f"unknown key {key!r}{suggestion}")


def assign(model: type[BaseModel], tree: dict[str, Any], key: str, value: object) -> None:
    """Set ``key`` in ``tree``, the raw configuration of ``model``.

    Setting the discriminator of a section (``x.kind``) to another kind replaces the section by that kind's defaults;
    everything else merges.

    Raises:
        InputError: for a name that does not exist.
    """
    parts = key.split(".")
    sections: Sections = (model,)
    node: Any = tree
    for place, part in enumerate(parts[:-1]):
        if isinstance(node, list):
            node = node[_position(part, node, key)]
            continue
        field = _field(sections, part)
        if sections and field is None:
            raise unknown_key(key, model, tree)
        if part not in node:
            node[part] = _default(field)
        discriminator = _discriminator(field)
        if discriminator and parts[place + 1 :] == [discriminator]:
            if not isinstance(node[part], dict) or node[part].get(discriminator) != value:
                node[part] = {discriminator: value}
            return
        sections = _chosen(field, node[part])
        node = node[part]
        if not isinstance(node, dict | list):
            raise unknown_key(key, model, tree)
    if isinstance(node, list):
        node[_position(parts[-1], node, key)] = copy.deepcopy(value)
        return
    if sections and _field(sections, parts[-1]) is None:
        raise unknown_key(key, model, tree)
    node[parts[-1]] = copy.deepcopy(value)


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


def _names(sections: Sections, tree: object, prefix: str) -> Iterator[str]:
    seen: set[str] = set()
    for section in sections:
        for name, field in section.model_fields.items():
            if name in seen:
                continue
            seen.add(name)
            child = tree.get(name) if isinstance(tree, dict) else None
            chosen = _chosen(field, child)
            items = _sections_by_name(field) if isinstance(child, dict) else ()
            if chosen:
                yield from _names(chosen, child, f"{prefix}{name}.")
            elif items and isinstance(child, dict):
                for key, item in child.items():
                    yield from _names(items, item, f"{prefix}{name}.{key}.")
            else:
                yield prefix + name


def _field(sections: Sections, name: str) -> FieldInfo | None:
    return next((section.model_fields[name] for section in sections if name in section.model_fields), None)


def _chosen(field: FieldInfo | None, node: object) -> Sections:
    """The sections that a field may hold; the one in use where its discriminator tells."""
    if field is None:
        return ()
    sections = tuple(_sections_in(field.annotation))
    discriminator = _discriminator(field)
    if discriminator is None:
        return sections
    tag = node.get(discriminator) if isinstance(node, dict) else getattr(field.default, discriminator, None)
    matching = tuple(s for s in sections if tag in get_args(s.model_fields[discriminator].annotation))
    return matching or sections


def _sections_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Sections among the members of a union, not those inside lists or mappings."""
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel):
            yield annotation
    elif not isinstance(getattr(annotation, "__origin__", None), type):
        for member in get_args(annotation):
            yield from _sections_in(member)


def _sections_by_name(field: FieldInfo) -> Sections:
    """The section type of a field such as ``gates: dict[str, Gate]``."""
    if getattr(field.annotation, "__origin__", None) is not dict:
        return ()
    return tuple(_sections_in(get_args(field.annotation)[1]))


def _discriminator(field: FieldInfo | None) -> str | None:
    if field is None:
        return None
    if isinstance(field.discriminator, str):
        return field.discriminator
    return next(_discriminators_in(field.annotation), None)


def _discriminators_in(annotation: object) -> Iterator[str]:
    """Discriminators inside an optional section: ``Annotated[A | B, Field(discriminator="kind")] | None``."""
    for info in getattr(annotation, "__metadata__", ()):
        if isinstance(info, FieldInfo) and isinstance(info.discriminator, str):
            yield info.discriminator
    for member in get_args(annotation):
        yield from _discriminators_in(member)


def _default(field: FieldInfo | None) -> Any:
    if field is None or field.is_required():
        return {}
    default = to_jsonable_python(field.get_default(call_default_factory=True))
    return {} if default is None else default


def _position(part: str, node: list, key: str) -> int:
    if not part.isdigit() or int(part) >= len(node):
        raise InputError(f"{key!r} has {part!r} where a list of {len(node)} is; expected a position from 0")
    return int(part)
