"""What a scale, a point of the grid and the user change of a configuration.

A mapping merges: it sets what stands in it and keeps the rest of its section. ``key:={...}`` replaces all of it, and an
entry of a mapping (``learners.NAME``) can be deleted. Inside a mapping the same is written ``{NAME:=: {...}}`` and
``{NAME: null}``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from iclab.config.field_types import FieldType
from iclab.config.keys import unknown_key
from iclab.errors import InputError, alternatives

REPLACES = ":="
Mode = Literal["merge", "replace", "delete"]
Path = tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """One change of a configuration.

    Attributes:
        path: the parts of the key.
        value: what is set.
        action: ``set`` the value, see to it that a ``section`` exists, or ``delete`` an entry of a mapping.
    """

    path: Path
    value: Any = None
    action: Literal["set", "section", "delete"] = "set"


def split_mode(key: str) -> tuple[str, Mode]:
    """``prompts:=`` is ``prompts``, and its value replaces the section."""
    return (key.removesuffix(REPLACES), "replace") if key.endswith(REPLACES) else (key, "merge")


def changes_of(path: Path, value: object, mode: Mode = "merge") -> list[Change]:
    """The changes that ``value`` makes at ``path``: one for each leaf of a mapping that merges."""
    if mode == "delete":
        return [Change(path, action="delete")]
    if mode == "replace" or not isinstance(value, dict):
        return [Change(path, value)]
    changes: list[Change] = []
    for name, item in value.items():
        part, item_mode = split_mode(str(name))
        changes += changes_of((*path, part), item, item_mode)
    return changes or [Change(path, action="section")]


def covers(paths: Iterable[Path], path: Path) -> bool:
    """Whether what is set at ``paths`` includes what stands at ``path``."""
    return any(path[: len(other)] == other for other in paths)


def apply_changes(model: type[BaseModel], tree: dict[str, Any], changes: Iterable[Change]) -> None:
    """Change ``tree``, the raw configuration of ``model``, in place.

    Setting the discriminator of a section (``x.kind``) to another kind replaces the section by that kind's defaults,
    in whatever order the changes come. ``None`` deletes an entry of a mapping whose type has no ``None``.

    Raises:
        InputError: for a name that does not exist, and for what cannot be deleted.
    """
    for change in sorted(changes, key=_order):
        _apply(model, tree, change)


def _order(change: Change) -> tuple[int, int]:
    """Whole sections first, then kinds, since both replace what was set in a section before; then outer keys first."""
    depth = len(change.path)
    if change.action == "delete" or isinstance(change.value, dict):
        return 0, depth
    return (1 if change.path[-1] == "kind" else 2), depth


def _apply(model: type[BaseModel], tree: dict[str, Any], change: Change) -> None:
    key = ".".join(change.path)
    field_type = FieldType((model,))
    node: Any = tree
    for depth, part in enumerate(change.path):
        if not isinstance(node, dict | list):
            raise unknown_key(key, model, tree)
        parent = field_type.chosen(node)
        child = parent.child(part)
        if child is None:
            raise unknown_key(key, model, tree)
        index: Any = _position(part, node, key) if isinstance(node, list) else part
        rest = change.path[depth + 1 :]
        if not rest:
            _set(change, parent, child, node, index)
            return
        if isinstance(node, dict) and node.get(index) is None:
            node[index] = parent.default(part)
        if rest == (child.discriminator,):
            _set_kind(node, index, rest[0], change.value, parent.default(part))
            return
        field_type, node = child, node[index]


def _set_kind(node: Any, index: Any, name: str, kind: object, default: Any) -> None:
    """Replace a section by the defaults of another kind; a section that names no kind is of the usual one."""
    section = node[index]
    usual = default.get(name) if isinstance(default, dict) else None
    if isinstance(section, dict) and section.get(name, usual) == kind:
        section[name] = kind
    else:
        node[index] = {name: kind}


def _set(change: Change, parent: FieldType, child: FieldType, node: Any, index: Any) -> None:
    part = change.path[-1]
    is_entry = isinstance(node, dict) and parent.is_entry(part)
    if change.action == "section":
        if isinstance(node, dict) and node.get(index) is None:
            node[index] = parent.default(part)
    elif change.action == "delete" or (change.value is None and is_entry and not child.nullable):
        _delete(change.path, node, is_entry=is_entry)
    else:
        node[index] = copy.deepcopy(change.value)


def _delete(path: Path, node: dict[str, Any], *, is_entry: bool) -> None:
    key = ".".join(path)
    if not is_entry:
        raise InputError(f"{key!r} cannot be deleted: it is no entry of a mapping such as learners; give it a value")
    if path[-1] not in node:
        raise InputError(f"there is no {key!r} to delete{alternatives(path[-1], node)}")
    del node[path[-1]]


def _position(part: str, node: list, key: str) -> int:
    if not part.isdigit() or int(part) >= len(node):
        raise InputError(f"{key!r} has {part!r} where a list of {len(node)} is; expected a position from 0")
    return int(part)
