"""Walking a configuration's types: which dotted names exist, and how one of them is set.

A section is a `Config`. A section that comes in kinds is a union told apart by a discriminator, usually ``kind``.
Sections may also stand in mappings (``learners.zero.kind``) and lists (``layers.0.width``).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from iclab.errors import InputError
from iclab.experiments.nearest import did_you_mean
from iclab.experiments.slots import Slot


def dotted_names(model: type[BaseModel], tree: object = None) -> list[str]:
    """Every name that can be set, ``prompts.link`` and the like; ``tree`` tells which kinds are in use."""
    return list(_names(Slot((model,)), tree if isinstance(tree, dict) else {}, ""))


def unknown_key(key: str, model: type[BaseModel], tree: object = None) -> InputError:
    """The error for a name that does not exist."""
    names = dotted_names(model, tree)
    sections = {name[:place] for name in names for place, letter in enumerate(name) if letter == "."}
    suggestion = did_you_mean(key, [*names, *sorted(sections)]) or f"; expected one of {', '.join(names)}"
    return InputError(f"unknown key {key!r}{suggestion}")


def assign(model: type[BaseModel], tree: dict[str, Any], key: str, value: object) -> None:
    """Set ``key`` in ``tree``, the raw configuration of ``model``.

    Setting the discriminator of a section (``x.kind``) to another kind replaces the section by that kind's defaults;
    everything else merges.

    Raises:
        InputError: for a name that does not exist.
    """
    parts = key.split(".")
    slot = Slot((model,))
    node: Any = tree
    for place, part in enumerate(parts):
        if not isinstance(node, dict | list):
            raise unknown_key(key, model, tree)
        parent = slot.chosen(node)
        child = parent.child(part)
        if child is None:
            raise unknown_key(key, model, tree)
        index: Any = _position(part, node, key) if isinstance(node, list) else part
        rest = parts[place + 1 :]
        if not rest:
            node[index] = copy.deepcopy(value)
            return
        if index not in node and isinstance(node, dict):
            node[index] = parent.default(part)
        if rest == [child.discriminator]:
            if not isinstance(node[index], dict) or node[index].get(rest[0]) != value:
                node[index] = {rest[0]: value}
            return
        slot, node = child, node[index]


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


def _names(slot: Slot, node: object, name: str) -> Iterator[str]:
    slot = slot.chosen(node)
    prefix = f"{name}." if name else ""
    if slot.sections:
        values = node if isinstance(node, dict) else {}
        for field in dict.fromkeys(field for section in slot.sections for field in section.model_fields):
            child = slot.child(field)
            if child is not None:
                yield from _names(child, values.get(field, slot.default(field)), prefix + field)
    elif slot.items is not None and slot.items.sections and isinstance(node, dict):
        for key, item in node.items():
            yield from _names(slot.items, item, f"{prefix}{key}")
    else:
        yield name


def _position(part: str, node: list, key: str) -> int:
    if not part.isdigit() or int(part) >= len(node):
        raise InputError(f"{key!r} has {part!r} where a list of {len(node)} is; expected a position from 0")
    return int(part)
