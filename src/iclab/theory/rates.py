"""Context lengths that learners of Gaussian single-index tasks need, as published: one row a learner.

Every entry reads ``base^Theta(exponent)``: the theorems fix the exponent up to constant factors (and the length up to
logarithms), so rows compare how lengths scale; they are no sample sizes. Reference: the comparison in arXiv 2510.12026.
"""

from __future__ import annotations

from dataclasses import dataclass

from iclab.links import LinkLike, make_link
from iclab.theory.expansion import polynomial_degree
from iclab.theory.exponents import information_exponent
from iclab.theory.generative import generative_exponent

DIMENSIONS = {"d": "ambient dimension", "r": "intrinsic dimension"}


@dataclass(frozen=True)
class Power:
    """``base^Theta(k)`` with ``k`` one of ``"ie"``, ``"ge"``, ``"degree"``."""

    base: str
    exponent: str

    def value(self, ie: int | None, ge: int | None, degree: int | None) -> int | None:
        """The exponent for a link, or ``None`` where the link has none (a degree of a non-polynomial)."""
        return {"ie": ie, "ge": ge, "degree": degree}[self.exponent]

    def text(self, ie: int | None, ge: int | None, degree: int | None) -> str:
        value = self.value(ie, ge, degree)
        if value is not None:
            return f"{self.base}^Theta({value})"
        return "not covered (no polynomial)" if self.exponent == "degree" else f"unknown ({self.exponent} not found)"


@dataclass(frozen=True)
class Rate:
    """What one learner needs: context length in pretraining (``None``: it is not pretrained) and at test time."""

    learner: str
    pretraining_context: Power | None
    test_context: Power
    feature_learning: str
    source: str

    def pretraining(self, ie: int | None, ge: int | None, degree: int | None) -> int | None:
        """Return the exponent of d in the pretraining context.

        Args:
            ie: information exponent of the link; ``None`` where it is not known.
            ge: generative exponent of the link; ``None`` where it is not known.
            degree: degree of the link; ``None`` where it is no polynomial.

        Returns:
            The exponent; ``None`` without pretraining, and where the link's number is ``None``.
        """
        return None if self.pretraining_context is None else self.pretraining_context.value(ie, ge, degree)

    def test(self, ie: int | None, ge: int | None, degree: int | None) -> int | None:
        """Return the exponent of d or r (see ``test_context.base``) in the test context.

        Args:
            ie, ge, degree: as in `pretraining`.
        """
        return self.test_context.value(ie, ge, degree)


_TABLE_SOURCE = "comparison table of arXiv 2510.12026"

RATES = (
    Rate("kernel regression on the prompt", None, Power("d", "degree"), "none", _TABLE_SOURCE),
    Rate(
        "CSQ learner (two-layer network, plain gradient on the prompt)",
        None,
        Power("d", "ie"),
        "correlation only",
        _TABLE_SOURCE,
    ),
    Rate("SQ learner (label-transformed)", None, Power("d", "ge"), "label transformation", _TABLE_SOURCE),
    Rate(
        "linear Transformer (MLP features, one gradient step, ridge)",
        Power("d", "ie"),
        Power("r", "degree"),
        "none: kernel in the learned subspace",
        "Oko, Song, Suzuki and Wu 2024; " + _TABLE_SOURCE,
    ),
    Rate(
        "softmax Transformer",
        Power("d", "ie"),
        Power("r", "ge"),
        "exponential label map",
        "Nishikawa et al. 2025; " + _TABLE_SOURCE,
    ),
    Rate("Mamba (one layer)", Power("d", "ge"), Power("r", "ge"), "sigmoid gate", "arXiv 2510.12026"),
)


def rates(link: LinkLike, ie: int | None = None, ge: int | None = None) -> list[dict[str, object]]:
    """Evaluate `RATES` for a link; exponents hold up to constant factors (see the module's text).

    Args:
        link: anything that `iclab.links.make_link` takes.
        ie: information exponent; computed unless given.
        ge: generative exponent; computed unless given.

    Returns:
        One dictionary a learner, ready for JSON.

    Reference: the comparison in arXiv 2510.12026.
    """
    link = make_link(link)
    ie = information_exponent(link).value if ie is None else ie
    ge = generative_exponent(link).value if ge is None else ge
    return rate_rows(ie, ge, polynomial_degree(link))


def rate_rows(ie: int | None, ge: int | None, degree: int | None) -> list[dict[str, object]]:
    """`RATES` at these exponents and this degree, ``None`` where one is not known or does not exist."""
    rows: list[dict[str, object]] = []
    for rate in RATES:
        pretraining = rate.pretraining_context
        rows.append(
            {
                "learner": rate.learner,
                "pretraining_context": "none" if pretraining is None else pretraining.text(ie, ge, degree),
                "pretraining_exponent": rate.pretraining(ie, ge, degree),
                "test_context": rate.test_context.text(ie, ge, degree),
                "test_exponent": rate.test(ie, ge, degree),
                "test_base": rate.test_context.base,
                "feature_learning": rate.feature_learning,
                "source": rate.source,
            }
        )
    return rows
