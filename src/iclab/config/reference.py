"""What every key of a configuration means, may be and is by default, as the sections themselves say it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from iclab.config.field_types import FieldType
from iclab.config.keys import Name, names_of
from iclab.settings.fields import meanings_of

_annotated: Any = Annotated
_LONGEST_DEFAULT = 80
_SECTION = "the section "
_PLURALS = {"an integer": "integers", "a number": "numbers", "a string": "strings", "a list": "lists"}


@dataclass(frozen=True)
class Key:
    """A key of a configuration.

    Attributes:
        name: dotted in an experiment, the field's own in a section.
        meaning: what it is, with its unit; empty where nobody has said.
        allowed: which values it takes.
        default: as JSON; empty where a value must be given.
    """

    name: str
    meaning: str
    allowed: str
    default: str


@dataclass(frozen=True)
class Section:
    """A section of configuration: its class, what its docstring says first, and its keys."""

    title: str
    kind: str
    summary: str
    keys: tuple[Key, ...]


def keys_of(model: type[BaseModel], tree: object = None) -> list[Key]:
    """Return every key of an experiment, with the kinds that ``tree``, its configuration, has in use."""
    return [_key(name) for name in names_of(model, tree)]


def sections_of(models: Iterable[type[BaseModel]]) -> list[Section]:
    """Return the sections of ``models`` and of all that may stand below them, each once, outer ones first."""
    seen: dict[type[BaseModel], None] = {}
    for model in models:
        _collect(FieldType((model,)), seen)
    return [_section(model) for model in seen]


def meaning_of(section: type[BaseModel], field: str) -> str:
    """Return what is said of a field: in its description, or under Attributes in a docstring of its class or bases."""
    described = section.model_fields[field].description
    if described:
        return described
    for cls in section.__mro__:
        if issubclass(cls, BaseModel) and field in (found := meanings_of(cls)):
            return found[field]
    return ""


def _collect(field_type: FieldType, seen: dict[type[BaseModel], None]) -> None:
    for section in field_type.sections:
        if section not in seen:
            seen[section] = None
            for field in section.model_fields:
                child = FieldType((section,)).child(field)
                if child is not None:
                    _collect(child, seen)
    if field_type.items is not None:
        _collect(field_type.items, seen)


def _section(model: type[BaseModel]) -> Section:
    kind = model.model_fields.get("kind")
    kinds = get_args(kind.annotation) if kind is not None else ()
    summary = " ".join((model.__doc__ or "").partition("\n\n")[0].split())
    keys = tuple(_key(Name(field, model, field)) for field in model.model_fields if field != "kind" or not kinds)
    return Section(model.__name__, ", ".join(map(str, kinds)), summary, keys)


def _key(name: Name) -> Key:
    info = name.section.model_fields[name.field]
    if name.kinds:
        tags = [tag for section in name.kinds for tag in get_args(section.model_fields[name.field].annotation)]
        allowed = _one_of(tags)
    else:
        allowed = _allowed(info)
    meaning = meaning_of(name.section, name.field) or ("which section stands here" if name.field == "kind" else "")
    return Key(name.dotted, meaning, allowed, _default(info))


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return ""
    value = to_jsonable_python(info.get_default(call_default_factory=True))
    if isinstance(value, dict):
        # The keys of a section have defaults of their own; of entries, the names say most.
        return value["kind"] if isinstance(value.get("kind"), str) else ", ".join(value) or "none"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_DEFAULT else f"{text[: _LONGEST_DEFAULT - 3]}..."


def _allowed(info: FieldInfo) -> str:
    annotation = _annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    schema = TypeAdapter(annotation).json_schema(ref_template="{model}")
    return _phrase(schema) or "anything"


def _phrase(schema: dict[str, Any]) -> str:
    """What a JSON schema allows."""
    words = dict.fromkeys(_words(schema))
    names = [word.removeprefix(_SECTION) for word in words if word.startswith(_SECTION)]
    sections = [f"{_SECTION}{', '.join(names)}"] if names else []
    return " or ".join([*sections, *(word for word in words if not word.startswith(_SECTION))])


def _words(schema: dict[str, Any]) -> Iterator[str]:
    """What a JSON schema allows, a phrase for each alternative."""
    for member in schema.get("anyOf", schema.get("oneOf", ())):
        yield from _words(member)
    if "$ref" in schema:
        yield f"{_SECTION}{schema['$ref']}"
    elif "const" in schema or "enum" in schema:
        yield _one_of(schema.get("enum", [schema.get("const")]))
    elif "type" in schema:
        yield _typed(schema)


def _typed(schema: dict[str, Any]) -> str:
    kind = schema["type"]
    if kind in ("integer", "number"):
        return " ".join(["an integer" if kind == "integer" else "a number", *_bounds(schema)])
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(map(_phrase, schema['prefixItems']))}]"
        items = _phrase(schema.get("items", {})) or "anything"
        if not items.startswith("["):
            for one, several in _PLURALS.items():
                items = items.replace(one, several)
        return f"a list{' (not empty)' if schema.get('minItems') else ''} of {items}"
    if kind == "object":
        items = schema.get("additionalProperties")
        inside = _phrase(items) if isinstance(items, dict) else ""
        if items is True:
            inside = "anything"
        return f"a mapping of names to {inside}" if inside else f"{_SECTION}{schema.get('title', '')}"
    return {"string": "a string", "boolean": "true or false", "null": "null"}[kind]


def _bounds(schema: dict[str, Any]) -> list[str]:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    found = [f"{sign} {schema[name]:g}" for name, sign in signs.items() if name in schema]
    return [" and ".join(found)] if found else []


def _one_of(values: Iterable[object]) -> str:
    return ", ".join(json.dumps(value, ensure_ascii=False) for value in dict.fromkeys(values))
