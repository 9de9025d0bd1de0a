"""Everything the theory says about a link, as plain data and as text for a person."""

from __future__ import annotations

import itertools
from typing import Any

from iclab.links import LinkLike, make_link
from iclab.theory.expansion import Expansion, hermite_expansion, polynomial_degree
from iclab.theory.exponents import TOLERANCE, Exponent, e_p, gated_exponent, information_exponent
from iclab.theory.generative import generative_exponent
from iclab.theory.rates import rate_rows

DEFAULT_GATES = ((1.0, -3.0), (0.5, -9.0), (0.3, -15.0), (1.0, 0.0))
_SHOWN_DEGREE = 8
_WEAK = 1e-2


def describe_link(
    link: LinkLike, rho: float | None = None, b: float | None = None, noise: float = 0.0, tolerance: float = TOLERANCE
) -> dict[str, Any]:
    """Compute moments, Hermite coefficients, exponents before and after the gate, and rates of a link.

    Args:
        link: anything that `iclab.links.make_link` takes.
        rho, b: the gate ``sigmoid(y/rho + b)``; where one is missing, the values of a default grid stand in for it.
        noise: of the labels, ``+noise`` or ``-noise`` with probability 1/2 each.
        tolerance: below which a coefficient counts as zero, relative to its size before cancellation (see `Exponent`).

    Returns:
        A dictionary ready for JSON; `format_description` makes it text.

    Raises:
        InputError: for a gate, noise or tolerance out of range, or a link whose products are not integrable.
    """
    link = make_link(link)
    expansion = hermite_expansion(link, _SHOWN_DEGREE)
    ie = information_exponent(link, tolerance=tolerance)
    ge = generative_exponent(link, tolerance=tolerance)
    gated = [
        {"rho": gate_rho, "b": gate_b, **gated_exponent(link, gate_rho, gate_b, noise, tolerance=tolerance).as_dict()}
        for gate_rho, gate_b in _gates(rho, b)
    ]
    powers = {f"e_{p}": e_p(link, p, tolerance=tolerance) for p in (1, 2)}
    return {
        "name": link.name,
        "mean": link.mean,
        "variance": link.variance,
        "degree": polynomial_degree(link),
        "breakpoints": list(link.breakpoints),
        "hermite_coefficients": [float(c) for c in expansion.coefficients],
        "hermite_errors": [float(e) for e in expansion.errors],
        "remaining_mass": expansion.remaining_mass,
        "remaining_mass_error": expansion.remaining_mass_error,
        "tolerance": tolerance,
        "noise": noise,
        "information_exponent": ie.as_dict(),
        "generative_exponent": ge.as_dict(),
        "gated_exponents": gated,
        **{name: found.as_dict() for name, found in powers.items()},
        "rates": rate_rows(_certain(ie), _certain(ge), polynomial_degree(link)),
        "notes": _notes(expansion, ie, ge, gated),
    }


def _certain(found: Exponent) -> int | None:
    return None if found.undecided else found.value


def _gates(rho: float | None, b: float | None) -> list[tuple[float, float]]:
    if rho is None and b is None:
        return list(DEFAULT_GATES)
    rhos = [rho] if rho is not None else [0.3, 0.5, 1.0]
    offsets = [b] if b is not None else [-3.0, -9.0, -15.0]
    return list(itertools.product(rhos, offsets))


def _notes(expansion: Expansion, ie: Exponent, ge: Exponent, gated: list[dict[str, Any]]) -> list[str]:
    """Sentences about what a reader of the numbers alone would miss."""
    notes = [
        f"The {found.what} is undecided: {found.reason}; {advice}."
        for found, advice in (
            (ie, "give the link as a polynomial, or in Python pass information_exponent a smaller tolerance"),
            (
                ge,
                "subtract the mean of the link, declare its break points, or in Python pass generative_exponent a "
                "smaller num_levels",
            ),
        )
        if found.undecided
    ]
    weak = ie.deciding
    if ie.value is not None and weak is not None and abs(weak) < _WEAK:
        stronger = next((k for k, c in enumerate(ie.coefficients, 1) if abs(c) >= _WEAK), None)
        tail = "" if stronger is None else f", like a link with information exponent {stronger}"
        notes.append(
            f"The information exponent {ie.value} rests on a coefficient of only {weak:.3g} standard deviations: with "
            f"fewer than about {weak**-2:.1g} examples the link behaves as if it were zero{tail}. "
            "A rounded constant may be why."
        )
    if _is_odd(expansion) and ie.value is not None and ie.value > 1 and any(row["b"] == 0 for row in gated):
        notes.append(
            "The link is odd, so at b = 0 the gate adds nothing of degree 1 (g sigmoid(g/rho) is g/2 plus an even "
            "function): take b != 0."
        )
    if ge.value is not None and any(row["value"] is not None and row["value"] != ge.value for row in gated):
        notes.append(f"Not every gate shown reaches the generative exponent {ge.value}.")
    return notes


def _is_odd(expansion: Expansion) -> bool:
    even = zip(expansion.coefficients[0::2], expansion.errors[0::2], strict=True)
    return all(abs(c) <= error + 1e-12 * expansion.second_moment**0.5 for c, error in even)
