"""Exponents of links before and after the gate: exact, without sampling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import Field

from iclab.errors import InputError
from iclab.experiments.kind import Config, ExperimentKind
from iclab.experiments.sections.single_index import LinkSpec

if TYPE_CHECKING:
    from iclab.evaluation import Measurement
    from iclab.links import Link
    from iclab.theory.exponents import Exponent

_LARGEST_BIAS = 1e4
_ORDINARY_BIAS = 30.0
_UNKNOWN_POWER = 8


class ExponentsConfig(Config):
    """One link. ``gates`` are pairs ``[rho, b]``; ``seed`` is there for uniformity and changes nothing.

    Attributes:
        seed: changes nothing.
        link: g: an expression in z, the name of a link, or its Hermite coefficients.
        noise: tau: labels get ``+tau`` or ``-tau`` added, with probability 1/2 each.
        gates: pairs of rho and b of gates.
        max_degree: highest degree of Hermite polynomials that is looked at.
    """

    seed: int = Field(0, ge=0)
    link: LinkSpec = "he3"
    noise: float = Field(0.0, ge=0, le=1e6)
    gates: list[tuple[float, float]] = Field([(0.5, -3.0), (1.0, -3.0), (2.0, -3.0), (1.0, -8.0)], min_length=1)
    max_degree: int = Field(8, ge=1, le=40)


def run_cell(config: ExponentsConfig) -> list[Measurement]:
    """Exponents and the coefficients that decide them."""
    from iclab.evaluation import Measurement
    from iclab.links import make_link
    from iclab.theory import gated_exponent, generative_exponent, information_exponent

    link = make_link(config.link)
    before = information_exponent(link, config.max_degree)
    measured = [
        Measurement.exact("link", "information_exponent", _number(before)),
        Measurement.exact("link", "generative_exponent", _number(generative_exponent(link, config.max_degree))),
        *_coefficients("before the gate", before),
    ]
    for rho, b in config.gates:
        after = gated_exponent(link, rho, b, config.noise, config.max_degree)
        keys: dict[str, str | int | float] = {"rho": rho, "b": b}
        value = math.nan if _is_below_resolution(link, rho, b, after) else _number(after)
        measured.append(Measurement.exact("link", "gated_exponent", value, keys=keys))
        measured.extend(_coefficients(f"after the gate, rho {rho:g}, b {b:g}", after))
    return measured


def _is_below_resolution(link: Link, rho: float, b: float, after: Exponent) -> bool:
    """Whether coefficients that were found zero after the gate may only be too small to see.

    A nearly linear gate has tiny ones: power j of the label enters the gated label with weight about
    ``sigmoid(-b) rho^(1-j)``, and degree p first appears at the power ``e_p`` of the link. A steep one
    (``rho -> 0``) differs from a step by order ``rho^2``. Where that weight is below 1000 tolerances at the generative
    exponent, a coefficient that counts as zero proves nothing.
    """
    from scipy.special import expit

    from iclab.theory import e_p, generative_exponent

    target = generative_exponent(link, after.max_degree).value
    if target is None or after.undecided or (after.value is not None and after.value <= target):
        return False
    if abs(after.coefficients[target - 1]) > after.errors[target - 1]:
        return True  # surely non-zero, though below the tolerance
    try:
        power = e_p(link, target).value
    except InputError:
        power = None  # high powers of this link are not square-integrable
    weight = rho**2 if rho < 1 else expit(-b) * rho ** (1.0 - (power or _UNKNOWN_POWER))
    return bool(weight < 1e3 * after.tolerance)


def _number(exponent: Exponent) -> float:
    """The exponent; infinite where none was found; NaN where undecided."""
    if exponent.undecided:
        return math.nan
    return math.inf if exponent.value is None else float(exponent.value)


def _coefficients(learner: str, exponent: Exponent) -> list[Measurement]:
    from iclab.evaluation import Measurement

    verdicts = zip(exponent.coefficients, exponent.verdicts, strict=True)
    return [
        Measurement.exact(learner, "coefficient", abs(c) if verdict != "zero" else 0.0, keys={"degree": degree})
        for degree, (c, verdict) in enumerate(verdicts, start=1)
    ]


def check(config: ExponentsConfig) -> None:
    """Refuse links that cannot be used, and gates that are none."""
    from iclab.links import make_link
    from iclab.theory import LabelWeight, gated_exponent

    link = make_link(config.link)
    if len(set(config.gates)) < len(config.gates):
        raise InputError(f"gates is {[list(gate) for gate in config.gates]}; expected each pair [rho, b] once")
    for index, (rho, b) in enumerate(config.gates):
        if not -_LARGEST_BIAS < b < _LARGEST_BIAS:
            raise InputError(f"gates.{index} has b = {b:g}; expected a number between -{_LARGEST_BIAS:.0f} and "
                             f"{_LARGEST_BIAS:.0f}")  # fmt: skip
        try:
            LabelWeight("mamba", rho, b)
            if abs(b) > _ORDINARY_BIAS or rho < 1 / _ORDINARY_BIAS:
                # Far out the quadrature itself may fail; one degree of it tells.
                gated_exponent(link, rho, b, config.noise, 1)
        except InputError as error:
            raise InputError(f"gates.{index}: {error}") from None


KIND = ExperimentKind(
    ExponentsConfig,
    run_cell,
    lambda config: 0.3,
    "iclab.studies.exponents.report:summarise",
    check,
    disk=lambda config: 0.0,
)
