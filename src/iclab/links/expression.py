"""Links from an expression string such as ``(z**3 - 3*z)/sqrt(6)``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import factorial

import numpy as np
from numpy.polynomial import Polynomial, hermite_e
from torch import Tensor

from iclab.errors import InputError
from iclab.links.features import find_features
from iclab.links.hermite import HermiteSeries
from iclab.links.link import ArrayLike, Link, sorted_breakpoints
from iclab.links.quadrature import ConvergenceError
from iclab.links.syntax import MAX_POWER, degree, evaluate, parse


def expression_link(text: str, breakpoints: Sequence[float] = ()) -> Link:
    """The link that ``text`` describes as a function of ``z``.

    Operators ``+ - * / **``, numbers, ``pi``, ``e`` and the functions in `FUNCTIONS` (``he1..he8`` are normalised
    Hermite polynomials). Kinks, jumps and narrow features are found from bounds of the expression (see `features`). A
    polynomial becomes a `HermiteSeries`, so its coefficients are exact.

    Raises:
        InputError: for anything outside the whitelist, naming it.
    """
    tree = parse(text)
    order = degree(tree)
    if order is None:
        return _ExpressionLink(text, tree, breakpoints)
    if order > MAX_POWER:
        raise InputError(f"the link {text!r} is a polynomial of degree {order:.6g}; expected at most {MAX_POWER}")
    with np.errstate(all="ignore"):
        polynomial = evaluate(tree, Polynomial([0.0, 1.0]), "polynomial")
    if not isinstance(polynomial, Polynomial):
        polynomial = Polynomial([float(polynomial)])
    norms = np.sqrt([float(factorial(k)) for k in range(len(polynomial.coef))])
    with np.errstate(all="ignore"):
        normalised = hermite_e.poly2herme(polynomial.coef) * norms
    # Cancellation such as z**3 - 3*z leaves exact zeros; what is left of it below rounding is zero as well.
    with np.errstate(all="ignore"):
        weights = hermite_e.poly2herme(np.abs(polynomial.coef)) * norms
    if not (np.isfinite(normalised).all() and np.isfinite(weights).all()):
        raise InputError(f"the link {text!r} overflows; expected finite coefficients")
    normalised[np.abs(normalised) <= 16 * np.finfo(float).eps * np.abs(weights)] = 0.0
    return HermiteSeries(normalised, text)


class _ExpressionLink(Link):
    def __init__(self, text: str, tree: ast.expr, breakpoints: Sequence[float]) -> None:
        self._tree = tree
        declared = sorted_breakpoints(breakpoints)
        features = find_features(tree, declared)
        super().__init__(text, [*declared, *features.breakpoints], features.panels, features.unresolved)

    def evaluate(self, z: ArrayLike) -> ArrayLike:
        with np.errstate(all="ignore"):
            value = evaluate(self._tree, z, "torch" if isinstance(z, Tensor) else "numpy")
        return value if getattr(value, "shape", None) == z.shape else z * 0 + value

    def _explain(self, error: InputError) -> str:
        return self.unresolved if self.unresolved and isinstance(error, ConvergenceError) else str(error)
