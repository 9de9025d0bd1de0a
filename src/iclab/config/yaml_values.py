"""YAML as the laboratory reads it: the core schema of YAML 1.2, without what other readers take differently.

YAML 1.1 reads ``010`` as 8, ``1:30`` as 90, ``1_000`` as 1000 and ``yes`` as true. Here ``yes`` is a string, as in
YAML 1.2, and such numbers are errors. So are numbers that a float cannot hold: ``1e-400`` would be 0.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

MOST_DIGITS = 300
_MOST_VALUES = 1_000_000
_DEEPEST = 50
_TAG = "tag:yaml.org,2002:"
_AMBIGUOUS = "tag:iclab,ambiguous"
_SIGN, _EXPONENT = r"[-+]?", r"[eE][-+]?[0-9]+"
_DIGITS = "-+.0123456789"
_CORE = (
    (f"{_TAG}null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (f"{_TAG}bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (f"{_TAG}int", rf"{_SIGN}(0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+", list(_DIGITS)),
    (
        f"{_TAG}float",
        rf"{_SIGN}([0-9]+\.[0-9]*|\.[0-9]+)({_EXPONENT})?|{_SIGN}[0-9]+{_EXPONENT}"
        rf"|{_SIGN}\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list(_DIGITS),
    ),
    (f"{_TAG}merge", r"<<", ["<"]),
    (
        _AMBIGUOUS,
        rf"{_SIGN}(?=\.?[0-9])([0-9_]*\.?[0-9_]*([eE][-+]?[0-9_]+)?|0[bx][0-9a-fA-F_]+"
        r"|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)",
        list(_DIGITS),
    ),
)


def load_yaml(text: str) -> Any:
    """The value that ``text`` holds; the keys of mappings are strings, as they are written.

    Raises:
        ValueError: saying on one line what cannot be read, and where.
    """
    try:
        value = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ValueError(_describe(error)) from None
    except RecursionError:
        raise ValueError(f"it is nested over {_DEEPEST} deep") from None
    _count(value, 0, _DEEPEST)
    return value


# libyaml takes a question mark inside a flow mapping for text, PyYAML's own scanner does not.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    yaml_implicit_resolvers: dict = {}  # noqa: RUF012 (of the class, as PyYAML has it)
    yaml_constructors = {  # noqa: RUF012
        tag: constructor
        for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.removeprefix(_TAG) in ("null", "bool", "int", "float", "str", "seq", "map")
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _fault("the key of a mapping is no name", key)
            if key.value in names:
                raise _fault(f"the key {key.value[:40]!r} stands twice in a mapping", key)
            names.add(key.value)
        self.flatten_mapping(node)
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}


def _fault(problem: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = node.value
    if len(text) > MOST_DIGITS:
        raise _fault(f"an integer of over {MOST_DIGITS} digits; expected a smaller number", node)
    try:
        return int(text, 0)
    except ValueError:
        raise _fault(f"{text!r} is no integer", node) from None


def _float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    text = node.value.lower()
    if text.endswith((".inf", ".nan")):
        return float(text.replace(".", ""))
    try:
        value = float(text)
    except ValueError:
        raise _fault(f"{text[:40]!r} is no number", node) from None
    if value == 0 and re.search("[1-9]", text.partition("e")[0]):
        raise _fault(f"{text[:40]} is too small for a floating-point number, which would be 0; write 0", node)
    if abs(value) == float("inf"):
        raise _fault(f"{text[:40]} is too large for a floating-point number; expected at most 1.7e308", node)
    return value


def _ambiguous(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> None:
    text = node.value[:40]
    if ":" in text:
        raise _fault(f"YAML may take {text} for a number to the base 60", node)
    if re.fullmatch(r"[-+]?0[0-9]+", text):
        raise _fault(f"YAML may take {text} for an octal number; leave out the leading 0", node)
    raise _fault(f"YAML may take {text} for a number or not; write a number in decimal digits", node)


def _string(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    if "${" in node.value:
        raise _fault("no interpolations ${...}; write the value itself", node)
    return node.value


for _tag, _pattern, _first in _CORE:
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), _first)
_Loader.add_constructor(f"{_TAG}int", _integer)
_Loader.add_constructor(f"{_TAG}float", _float)
_Loader.add_constructor(f"{_TAG}str", _string)
_Loader.add_constructor(_AMBIGUOUS, _ambiguous)


def _describe(error: yaml.YAMLError) -> str:
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    text = " ".join(str(problem or error).split())[:160]
    return text if mark is None else f"{text}, in line {mark.line + 1}, column {mark.column + 1}"


def _count(value: object, total: int, depth: int) -> int:
    """The number of values, counted as often as they are referred to: references may nest, or come back."""
    total += 1
    if depth == 0 or total > _MOST_VALUES:
        raise ValueError(f"it holds over {_MOST_VALUES:,} values" if depth else f"it is nested over {_DEEPEST} deep")
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        total = _count(child, total, depth - 1)
    return total
