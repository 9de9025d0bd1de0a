"""Links by name, and `make_link`, the one way from whatever a user gives to a `Link`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from iclab.errors import InputError
from iclab.links.expression import expression_link
from iclab.links.hermite import HermiteSeries
from iclab.links.link import FunctionLink, Link

_NAMED = {
    **{f"he{k}": f"he{k}(z)" for k in range(1, 9)},
    "relu": "relu(z)",
    "abs": "abs(z)",
    "sign": "sign(z)",
    "tanh": "tanh(z)",
    "sin": "sin(z)",
    "z2exp": "z**2*exp(-z**2)",
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
    """The link that ``spec`` describes.

    Args:
        spec: a `Link`; a name (``he1`` .. ``he8`` normalised, ``relu``, ``abs``, ``sign``, ``tanh``, ``sin``,
            ``z2exp`` = ``z^2 exp(-z^2)``); an expression in ``z``; ``"hermite:c0,c1,..."``; a list of normalised
            Hermite coefficients; or a callable.
        breakpoints: kinks and jumps that cannot be found from the spec (callables).
        standardise: subtract the mean and divide by the standard deviation under ``N(0, 1)``.

    Raises:
        InputError: for anything else, and for links that are constant, not finite or not square-integrable.
    """
    if isinstance(spec, Link):
        link = spec
    elif isinstance(spec, str):
        link = _from_text(spec.strip(), breakpoints)
    elif isinstance(spec, list | tuple | np.ndarray):
        link = HermiteSeries(spec)
    else:
        link = FunctionLink(cast(Callable, spec), breakpoints)
    return link.standardised() if standardise else link


def _from_text(text: str, breakpoints: Sequence[float]) -> Link:
    if len(text) > _MAX_LENGTH:
        raise InputError(f"the link is a text of {len(text)} characters; expected at most {_MAX_LENGTH}")
    inside = _inside_standardised(text)
    if inside is not None:
        return _from_text(inside, breakpoints).standardised()
    if "standardised" in text:
        raise InputError(
            f"the link {text!r} has standardised(...) as a part; expected it around the whole link, as in "
            "standardised(z + sin(z))"
        )
    if text.startswith("hermite:"):
        try:
            return HermiteSeries([float(part) for part in text[len("hermite:") :].split(",")])
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"the link {text!r} is no list of numbers; expected hermite:c0,c1,...") from None
    if text in _NAMED:
        link = expression_link(_NAMED[text], breakpoints)
        link.name = text
        return link
    return expression_link(text, breakpoints)


def _inside_standardised(text: str) -> str | None:
    """``g`` where the whole of ``text`` is ``standardised(g)``, else ``None``."""
    before, _, inside = text.partition("(")
    if before != "standardised" or not inside.endswith(")"):
        return None
    inside = inside[:-1]
    depths = np.cumsum([(character == "(") - (character == ")") for character in inside])
    return inside if depths.size and depths.min() >= 0 and depths[-1] == 0 else None
