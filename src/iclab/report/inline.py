"""Makes a matplotlib SVG part of an HTML page: own ids, colours as CSS variables, a name for screen readers."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from markupsafe import Markup

from iclab.report.palette import VARIABLE_OF_COLOUR

_COLOUR = re.compile("|".join(VARIABLE_OF_COLOUR))
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONG_DECIMAL = re.compile(r"(-?\d+\.\d{3,})")
_DROPPED = {"metadata", "style", "title"}


def inline_svg(svg: bytes, prefix: str, label: str) -> Markup:
    """``svg`` as an element of an HTML page.

    Declarations, metadata, comments and style sheets (which would act on the whole page) are dropped; ids that nothing
    refers to as well, the others get ``prefix``; known colours become ``var(--...)``; path coordinates keep 1/100 pt.

    Args:
        svg: a file that matplotlib wrote.
        prefix: unique on the page.
        label: what the image shows; an empty label marks it as decoration.
    """
    root = ElementTree.fromstring(svg)
    used = {m for element in root.iter() for value in element.attrib.values() for m in _references(value)}
    _rewrite(root, prefix, used)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib.update({"role": "img", "aria-label": label} if label else {"aria-hidden": "true"})
    # The element tree escapes every attribute, so what comes out is markup.
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _references(value: str) -> list[str]:
    return [value[1:]] if value.startswith("#") else _REFERENCE.findall(value)


def _rewrite(element: ElementTree.Element, prefix: str, used: set[str]) -> None:
    element.tag = _local(element.tag)
    if element.tag != "text":
        element.text = element.tail = None
    attributes = {_local(name): value for name, value in element.attrib.items()}
    element.attrib.clear()
    for name, value in attributes.items():
        if name == "id":
            if value in used:
                element.set("id", f"{prefix}-{value}")
        elif name == "href":
            element.set("href", f"#{prefix}-{value[1:]}")
        else:
            element.set(name, _value(name, value, prefix))
    for child in list(element):
        if _local(child.tag) in _DROPPED:
            element.remove(child)
        else:
            _rewrite(child, prefix, used)


def _value(name: str, value: str, prefix: str) -> str:
    if name == "d":
        return " ".join(_LONG_DECIMAL.sub(_rounded, value).split())
    if name == "style":
        value = _COLOUR.sub(lambda match: f"var(--{VARIABLE_OF_COLOUR[match.group()]})", value)
    return _REFERENCE.sub(rf"url(#{prefix}-\1)", value)


def _rounded(match: re.Match[str]) -> str:
    return f"{float(match.group()):.2f}".rstrip("0").rstrip(".")


def _local(name: str) -> str:
    return name.rpartition("}")[2]
