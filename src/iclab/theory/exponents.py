"""Information exponents of links, of their powers, and of gated labels, with a decision that knows its own error.

``ie(f)`` is the least ``k >= 1`` with ``H(f, k) = E f(z) h_k(z) != 0``. Each coefficient is found non-zero, zero, or
undecided, by comparing it with its error and with ``tolerance * E|(f - E f) h_k|``: what is left of the integral after
its positive and negative parts have cancelled. Derivation and traps: docs/theory/exponents.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from iclab.errors import InputError, check_integer, check_number, check_positive
from iclab.links import Link, LinkLike, hermite_functions, make_link
from iclab.theory.expansion import MAX_DEGREE, hermite_expansion

Array = np.ndarray

TOLERANCE = 1e-10
_TOO_SMALL = "a lower coefficient is as small as its own error"
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Exponent:
    """An exponent, and the numbers that decide it.

    Attributes:
        value: the exponent; ``None`` if no coefficient up to ``max_degree`` is surely non-zero.
        coefficients: of degree (or power) 1, 2, ..., in units of the function's own standard deviation under
            ``N(0, 1)``, so that adding a constant changes nothing. (Generative exponents: see there.)
        errors: error estimates, in the same units.
        scales: size of each coefficient before cancellation, in the same units; at most about 1.
        tolerance: a coefficient is zero if ``|c| + error <= tolerance * scale``, and non-zero if
            ``|c| > tolerance * scale + error``.
        undecided: some coefficient before ``value`` (any, if ``value`` is None) is neither; the exponent may be less.
        max_degree: how far was looked.
        what: the quantity in words.
        reason: why it is undecided; empty if it is not.
    """

    value: int | None
    coefficients: tuple[float, ...]
    errors: tuple[float, ...]
    scales: tuple[float, ...]
    tolerance: float
    undecided: bool
    max_degree: int
    what: str
    reason: str = ""

    @property
    def verdicts(self) -> tuple[str, ...]:
        """``"nonzero"``, ``"zero"`` or ``"undecided"`` for each coefficient."""
        return tuple(
            _verdict(c, e, self.tolerance * s)
            for c, e, s in zip(self.coefficients, self.errors, self.scales, strict=True)
        )

    @property
    def deciding(self) -> float | None:
        """The coefficient at ``value``: how strong the signal is that the exponent promises."""
        return None if self.value is None else self.coefficients[self.value - 1]

    def as_dict(self) -> dict[str, object]:
        """Return plain numbers and lists, ready for JSON."""
        return asdict(self) | {
            "coefficients": list(self.coefficients),
            "errors": list(self.errors),
            "scales": list(self.scales),
            "verdicts": list(self.verdicts),
            "deciding": self.deciding,
        }


def decide(
    what: str,
    coefficients: Array | Sequence[float],
    errors: Array | Sequence[float],
    scales: Array | Sequence[float],
    tolerance: float,
    unresolved: str = "",
) -> Exponent:
    """The `Exponent` that these coefficients of degree 1, 2, ... give; undecided if something is ``unresolved``."""
    verdicts = [_verdict(c, e, tolerance * s) for c, e, s in zip(coefficients, errors, scales, strict=True)]
    value = verdicts.index("nonzero") + 1 if "nonzero" in verdicts else None
    doubtful = "undecided" in verdicts[: None if value is None else value]
    reason = unresolved or (_TOO_SMALL if doubtful else "")
    return Exponent(
        value=value,
        coefficients=tuple(float(c) for c in coefficients),
        errors=tuple(float(e) for e in errors),
        scales=tuple(float(s) for s in scales),
        tolerance=tolerance,
        undecided=bool(reason),
        max_degree=len(verdicts),
        what=what,
        reason=reason,
    )


def information_exponent(link: LinkLike, max_degree: int = 12, tolerance: float = TOLERANCE) -> Exponent:
    """Find ``ie(g)``, the least ``k >= 1`` with ``H(g, k) != 0``.

    Polynomials are decided from their exact coefficients, against their standard deviation; ``tolerance=0`` takes them
    at their word.

    Args:
        link: anything that `iclab.links.make_link` takes.
        max_degree: the last degree looked at.
        tolerance: as in `Exponent`.

    Raises:
        InputError: for a ``max_degree`` outside ``1 .. 200`` or a tolerance outside ``[0, 1)``.

    Reference: Ben Arous, Gheissari and Jagannath 2021; arXiv 2510.12026.
    """
    check_integer("max_degree", max_degree, 1, MAX_DEGREE)
    check_tolerance(tolerance)
    link = make_link(link)
    what = f"information exponent of {link.name}"
    if link.hermite_coefficients is not None:
        expansion = hermite_expansion(link, max_degree)
        deviation = link.variance**0.5
        coefficients, errors = expansion.coefficients[1:] / deviation, expansion.errors[1:] / deviation
        return decide(what, coefficients, errors, np.ones(max_degree), tolerance)
    return decide(what, *relative_coefficients(link, link, max_degree), tolerance, link.unresolved)


def e_p(link: LinkLike, p: int, max_power: int = 8, tolerance: float = TOLERANCE) -> Exponent:
    """Find ``e_p(g)``, the least power ``j >= 1`` with ``H(g^j, p) != 0``.

    The gate reaches degree ``p`` at a cost ``rho^(1 - e_p)``. The search stops at the first power that decides.

    Args:
        link: anything that `iclab.links.make_link` takes.
        p: the degree, at least 1.
        max_power: the last power tried, at most 60.
        tolerance: as in `Exponent`.

    Raises:
        InputError: for ``p < 1``, ``max_power < 1``, or a power that is not square-integrable.

    Reference: arXiv 2510.12026.
    """
    check_integer("p", p, 1, MAX_DEGREE)
    check_integer("max_power", max_power, 1, 60)
    check_tolerance(tolerance)
    base = make_link(link)
    found = np.empty((0, 3))
    for power in range(1, max_power + 1):

        def to_power(z: Array, power: int = power) -> Array:
            return base(z) ** power

        try:
            c, e, s = relative_coefficients(base, to_power, p)
        except InputError as error:
            raise InputError(f"power {power} of the link {base.name!r}: {error}; lower max_power") from None
        found = np.vstack([found, [c[-1], e[-1], s[-1]]])
        if _verdict(c[-1], e[-1], tolerance * s[-1]) == "nonzero":
            break
    what = f"e_{p} of {base.name} (least power with a component of degree {p})"
    return decide(what, found[:, 0], found[:, 1], found[:, 2], tolerance, base.unresolved)


def gated_exponent(
    link: LinkLike, rho: float, b: float, noise: float = 0.0, max_degree: int = 12, tolerance: float = TOLERANCE
) -> Exponent:
    """Find the information exponent after the gate: of ``z -> E_zeta[y sigmoid(y / rho + b)]``, ``y = g(z) + zeta``.

    The paper's claim is that it equals the generative exponent of ``g``. Trap: for odd ``g`` and ``b = 0`` the degree-1
    coefficient is exactly zero, since ``g sigmoid(g/rho)`` is ``g/2`` plus an even function.

    Args:
        link: anything that `iclab.links.make_link` takes.
        rho, b: of the gate.
        noise: ``zeta`` is ``+noise`` or ``-noise`` with probability 1/2 each.
        max_degree: the last degree looked at.
        tolerance: as in `Exponent`.

    Raises:
        InputError: for ``rho <= 0``, a ``b`` that is not finite, or a negative noise.

    Reference: arXiv 2510.12026.
    """
    check_integer("max_degree", max_degree, 1, MAX_DEGREE)
    check_tolerance(tolerance)
    link = make_link(link)
    function = gated_label(link, rho, b, noise)
    what = f"information exponent of {link.name} after the gate rho={rho:g}, b={b:g}, noise={noise:g}"
    return decide(what, *relative_coefficients(link, function, max_degree), tolerance, link.unresolved)


def gated_label(link: Link, rho: float, b: float, noise: float = 0.0) -> Callable[[Array], Array]:
    """Make the function ``z -> E_zeta[y sigmoid(y/rho + b)]``, ``y = g(z) + zeta``, times a constant.

    The constant keeps it and its square inside float64. The gate is computed in logs, so ``b = -800`` and ``rho =
    1e-6`` are as good as any.

    Args:
        link: ``g``.
        rho, b: of the gate.
        noise: ``zeta`` is ``+noise`` or ``-noise`` with probability 1/2 each.

    Raises:
        InputError: for ``rho <= 0``, a ``b`` that is not finite, or a negative noise.
    """
    check_positive("rho", rho)
    check_number("b", b)
    if check_number("noise", noise) < 0:
        raise InputError(f"noise is {noise!r}; expected a finite number >= 0")
    labels = (noise, -noise) if noise > 0 else (0.0,)

    def log_gate(y: Array) -> Array:
        return -np.logaddexp(0.0, -(y / rho + b))

    z = np.linspace(-37.0, 37.0, 1481)
    if len(link.panels):  # labels that only narrow panels take
        middle = 0.5 * (link.panels[1:] + link.panels[:-1])
        z = np.concatenate([z, middle[np.diff(link.panels) < z[1] - z[0]]])
    with np.errstate(all="ignore"):
        y = np.concatenate([link(z) + zeta for zeta in labels])
        size = log_gate(y) + np.log(np.abs(y)) - np.tile(z * z / 4, len(labels))
    shift = float(size[np.isfinite(size)].max(initial=-np.inf))
    shift = shift if np.isfinite(shift) else float(log_gate(np.zeros(1))[0])

    def function(z: Array) -> Array:
        g = link(z)
        y = np.stack([g + zeta for zeta in labels])
        return (y * np.exp(log_gate(y) - shift)).mean(0)

    return function


def relative_coefficients(
    link: Link, function: Callable[[Array], Array], max_degree: int
) -> tuple[Array, Array, Array]:
    """Coefficients of degree ``1 .. max_degree`` of a ``function`` made of ``link``, their errors, and their scales
    ``E|(f - E f) h_k|``, all divided by the standard deviation of ``f`` (by its L2 norm where that is constant to
    rounding). The mean is removed first: it has no part in these coefficients and would only add its rounding."""

    def moments(z: Array) -> Array:
        f = function(z)
        return np.stack([f, f * f], 1)

    (mean, square), _, _ = link.integrals(moments)
    norm = float(square) ** 0.5
    if norm == 0:
        zeros = np.zeros(max_degree)
        return zeros, zeros, zeros

    def integrand(z: Array) -> Array:
        centred = (function(z) - mean) / norm
        return np.column_stack([centred * centred, centred[:, None] * hermite_functions(z, max_degree)[:, 1:]])

    mean_rounding = 8 * _EPS * abs(float(mean)) / norm
    values, errors, scales = link.integrals(integrand, mean_rounding)
    variance = float(values[0])
    errors = errors[1:] + mean_rounding + _EPS * np.arange(1, max_degree + 1) * scales[1:]
    # A function that is constant to rounding has scales of rounding size: its coefficients are zero, not undecided.
    if variance <= (64 * _EPS) ** 2:
        return values[1:], errors, np.ones(max_degree)
    deviation = variance**0.5
    return values[1:] / deviation, errors / deviation, scales[1:] / deviation


def check_tolerance(tolerance: float) -> None:
    if not 0 <= check_number("tolerance", tolerance) < 1:
        raise InputError(f"tolerance is {tolerance}; expected a number in [0, 1), such as {TOLERANCE:g}")


def _verdict(coefficient: float, error: float, threshold: float) -> str:
    size = abs(coefficient)
    if size > threshold + error:
        return "nonzero"
    return "zero" if size + error <= threshold else "undecided"
