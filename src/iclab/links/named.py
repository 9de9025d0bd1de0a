"""Links by name, and `make_link`, the one way from whatever a user gives to a `Link`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from iclab.errors import InputError, cut, read_number
from iclab.links.expression import expression_link
from iclab.links.hermite import HermiteSeries
from iclab.links.link import FunctionLink, Link, sorted_breakpoints
from iclab.links.syntax import SHORTHANDS, constant

_NAMED = {
    **{f"he{k}": f"he{k}(z)" for k in range(1, 9)},
    "relu": "relu(z)",
    "abs": "abs(z)",
    "sign": "sign(z)",
    "tanh": "tanh(z)",
    "sin": "sin(z)",
    **SHORTHANDS,
}
LINK_NAMES = tuple(_NAMED)
# Room for 61 coefficients in full; expressions have a limit of their own.
_MAX_LENGTH = 4000
LinkLike = Link | str | Sequence[float] | np.ndarray | Callable


def make_link(
    spec: LinkLike,
    *,
    breakpoints: Sequence[float] = (),
    standardise: bool = False,
) -> Link:
    """Make the link that ``spec`` describes.

    Args:
        spec: a `Link`; a name (``he1`` .. ``he8`` normalised, ``relu``, ``abs``, ``sign``, ``tanh``, ``sin``, ``z2exp``
            = ``z^2 exp(-z^2)``); an expression in ``z``; ``"hermite:c0,c1,..."``; a list of normalised Hermite
            coefficients; or a callable. ``"breakpoints(EXPRESSION, 0.5, sqrt(2))"`` is an expression with its
            breakpoints, and ``"standardised(LINK)"`` any of these with mean 0 and variance 1.
        breakpoints: points of kinks, jumps and narrow features, for callables; in an expression they are found.
        standardise: subtract the mean and divide by the standard deviation under ``N(0, 1)``.

    Raises:
        InputError: for anything else, and for links that are constant, not finite or not square-integrable.
    """
    points = sorted_breakpoints(breakpoints)
    if isinstance(spec, Link):
        if points:
            raise InputError(
                f"breakpoints are given to the link {spec.name!r}, which is made already; give them where it is made"
            )
        link = spec
    elif isinstance(spec, str):
        link = _from_text(spec.strip(), points)
    elif isinstance(spec, list | tuple | np.ndarray):
        link = HermiteSeries(spec)
    else:
        link = FunctionLink(cast(Callable, spec), points)
    return link.standardised() if standardise else link


def _from_text(text: str, breakpoints: tuple[float, ...]) -> Link:
    if len(text) > _MAX_LENGTH:
        raise InputError(f"the link is a string of {len(text)} characters; expected at most {_MAX_LENGTH}")
    inside = _inside("standardised", text)
    if inside is not None:
        return _from_text(inside, breakpoints).standardised()
    inside = _inside("breakpoints", text)
    if inside is not None:
        return _with_breakpoints(text, inside, breakpoints)
    for wrapper, example in (("standardised", "z + sin(z)"), ("breakpoints", "tanh(z), 0.5")):
        if wrapper in text:
            raise InputError(
                f"the link {cut(text)} has {wrapper}(...) as a part; expected it around the whole link, as in "
                f"{wrapper}({example})"
            )
    if text.startswith("hermite:"):
        parts = text[len("hermite:") :].split(",")
        return HermiteSeries([read_number(f"c{k} of the link {cut(text)}", part) for k, part in enumerate(parts)])
    if text in _NAMED:
        link = expression_link(_NAMED[text], breakpoints)
        link.name = text
        return link
    return expression_link(text, breakpoints)


def _with_breakpoints(text: str, inside: str, breakpoints: tuple[float, ...]) -> Link:
    """The link of ``breakpoints(EXPRESSION, POINT, ...)``; the points are numbers or expressions without ``z``."""
    expression, *points = (part.strip() for part in inside.split(","))
    if not points or not expression:
        raise InputError(
            f"the link {cut(text)} has no breakpoints; expected an expression and its breakpoints, as in "
            "breakpoints(tanh(z), 0.5, 1.5)"
        )
    link = expression_link(expression, [*breakpoints, *(constant("a breakpoint", point) for point in points)])
    link.name = text
    return link


def _inside(wrapper: str, text: str) -> str | None:
    """``g`` where the whole of ``text`` is ``wrapper(g)``, else ``None``."""
    before, _, inside = text.partition("(")
    if before != wrapper or not inside.endswith(")"):
        return None
    inside = inside[:-1]
    depths = np.cumsum([(character == "(") - (character == ")") for character in inside])
    return inside if depths.size and depths.min() >= 0 and depths[-1] == 0 else None
