"""Raw values to typed configurations; pydantic's errors as one line that a person can act on."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from iclab.config.keys import unknown_key
from iclab.errors import InputError

Model = TypeVar("Model", bound=BaseModel)

_EXPECTED = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "int_parsing_size": "a smaller integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a string",
    "list_type": "a list such as [1,2]",
    "tuple_type": "a list such as [1,2]",
    "dict_type": "a section with keys",
    "model_type": "a section with keys",
    "model_attributes_type": "a section with keys",
    "none_required": "nothing (null)",
    "greater_than": "a value > {gt}",
    "greater_than_equal": "a value >= {ge}",
    "less_than": "a value < {lt}",
    "less_than_equal": "a value <= {le}",
    "literal_error": "{expected}",
    "union_tag_invalid": "one of {expected_tags}",
    "too_short": "at least {min_length} in the list",
    "too_long": "at most {max_length} items",
    "string_too_short": "at least {min_length} characters",
}

_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")


def validate(model: type[Model], tree: dict[str, Any], where: str = "") -> Model:
    """``tree`` as a ``model``.

    Args:
        model: the type of the configuration.
        tree: its raw values.
        where: put before the message, such as the name of a file and a colon.

    Raises:
        InputError: naming the dotted key, what was found and what was expected.
    """
    try:
        config = model.model_validate(tree)
    except ValidationError as error:
        raise InputError(where + _describe(error, model, tree)) from None
    coerced = _coerced(tree, config.model_dump(), ())
    if coerced is not None:
        raise InputError(where + coerced)
    return config


def _describe(error: ValidationError, model: type[BaseModel], tree: dict[str, Any]) -> str:
    # Strings in `input` may be long arrays; they are cut in `_show`.
    details = error.errors(include_url=False)
    # Members of a union fail at one key; the one that got further in says what is wrong inside.
    key = _dotted(details[0], tree)
    first = max((d for d in details if _dotted(d, tree).startswith(key)), key=lambda d: _dotted(d, tree).count("."))
    key = _dotted(first, tree)
    if first["type"] == "extra_forbidden":
        return str(unknown_key(key, model, tree))
    if first["type"] == "missing":
        return f"{key} is missing; give it a value"
    if first["type"] == "union_tag_not_found":
        return f"{key} has no kind; add {key}.kind"
    if first["type"] == "union_tag_invalid":
        key, found = f"{key}.{str(first['ctx']['discriminator']).strip(chr(39))}", first["ctx"]["tag"]
    else:
        found = first["input"]
    # A union reports one error for each of its members, all at one key.
    expected = list(dict.fromkeys(_expected(d, key) for d in details if _dotted(d, tree) == _dotted(first, tree)))
    return f"{key} is {_show(found)}; expected {' or '.join(expected)}"


def _expected(detail: ErrorDetails, key: str) -> str:
    found = detail["input"]
    if detail["type"] in ("list_type", "tuple_type") and isinstance(found, int | float):
        # Commas outside brackets sweep: who writes 16,32 for a list means this.
        example = f"[{found},{2 * found}]"
        return f"a list such as {example}: write {key}={example}"
    if detail["type"] in _BOUNDS and isinstance(found, bool | str):
        return "a number"
    template = _EXPECTED.get(detail["type"])
    if template is not None:
        return template.format(**detail.get("ctx", {}))
    return detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")


def _dotted(detail: ErrorDetails, tree: object) -> str:
    """The key of an error without pydantic's own entries (the names of union members)."""
    parts: list[str] = []
    node: Any = tree
    last = len(detail["loc"]) - 1
    for depth, part in enumerate(detail["loc"]):
        inside = isinstance(node, dict) and part in node
        inside = inside or (isinstance(node, list | tuple) and isinstance(part, int) and part < len(node))
        if inside:
            node = node[part]
        if inside or (depth == last and detail["type"] in ("missing", "extra_forbidden")):
            parts.append(str(part))
    return ".".join(parts) or "the configuration"


def _coerced(raw: object, typed: object, path: tuple[str, ...]) -> str | None:
    """What pydantic took for something else, such as ``true`` for 1, or the string ``'1e-400'`` for 0."""
    children: list[tuple[str, object, object]] = []
    if isinstance(raw, dict) and isinstance(typed, dict):
        children = [(str(k), raw[k], typed[k]) for k in raw if k in typed]
    elif isinstance(raw, list) and isinstance(typed, list | tuple) and len(raw) == len(typed):
        children = [(str(i), r, t) for i, (r, t) in enumerate(zip(raw, typed, strict=True))]
    elif isinstance(typed, bool) and not isinstance(raw, bool):
        return f"{'.'.join(path)} is {_show(raw)}; expected true or false"
    elif isinstance(typed, int | float) and isinstance(raw, bool | str) and not isinstance(typed, bool):
        return f"{'.'.join(path)} is {_show(raw)}; expected a number"
    return next((f for name, r, t in children if (f := _coerced(r, t, (*path, name))) is not None), None)


def _show(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
