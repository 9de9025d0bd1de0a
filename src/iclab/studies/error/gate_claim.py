"""The claim of arXiv 2510.12026 about the gate, from the errors of a gated model and of its ungated twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from iclab.results.page import Finding, Verdict
from iclab.results.wording import basis_of_each, plural, quantity, spread

if TYPE_CHECKING:
    import pandas as pd

_LEARNS = 0.9  # of the error of predicting zero


@dataclass(frozen=True)
class Twins:
    """A gated model and its ungated twin at one place of the grid.

    Attributes:
        title: the place.
        link: its link, as configured: a text or a list of Hermite coefficients.
        num_examples: the context length.
        gated, ungated: their rows of the summary.
        zero: the error of predicting zero on the same prompts.
    """

    title: str
    link: Any
    num_examples: int
    gated: pd.Series
    ungated: pd.Series
    zero: float

    @property
    def judged(self) -> bool:
        """Whether both rest on seeds enough (5) for an interval that says something of other seeds."""
        return self.gated["interval"] == self.ungated["interval"] == "bootstrap"

    @property
    def holds(self) -> bool:
        """The gated model learns and its twin does not: the whole intervals lie on the two sides of the threshold."""
        return self.judged and bool(self.gated["high"] < _LEARNS * self.zero < self.ungated["low"])

    @property
    def fails(self) -> bool:
        """The gated model does not learn, or its twin does."""
        threshold = _LEARNS * self.zero
        return self.judged and bool(self.gated["low"] > threshold or self.ungated["high"] < threshold)


def gate_findings(twins: Sequence[Twins]) -> list[Finding]:
    """For links with ge < ie: does the gated model learn in context while its twin does not? For the others the paper
    claims nothing about the gate, and the numbers are information.

    A model learns if the whole interval of its error lies below 0.9 of the error of predicting zero on the same
    prompts, and does not if it lies above. Fewer than 5 seeds give no verdict.
    """
    kinds = {str(t.link): gate_can_help(t.link) for t in twins}
    claimed = [t for t in twins if kinds[str(t.link)] == "yes"]
    equal = [t for t in twins if kinds[str(t.link)] == "no"]
    unknown = [t for t in twins if kinds[str(t.link)] == "undecided"]
    findings = [_claim(claimed)] if claimed else []
    for others, what in (
        (equal, "Links with ge = ie, for which nothing is claimed of the gate"),
        (unknown, "Links whose exponents the numbers do not decide"),
    ):
        if others:
            findings.append(
                Finding(
                    f"{what}: squared error of the gated model against its ungated twin {_told(others)} "
                    f"({_basis(others)})."
                )
            )
    return findings


def _claim(claimed: Sequence[Twins]) -> Finding:
    judged = [t for t in claimed if t.judged]
    holds, fails = (sum(getattr(t, name) for t in claimed) for name in ("holds", "fails"))
    verdict: Verdict = "undecided"
    if not judged:
        verdict = "information"
    elif holds == len(claimed):
        verdict = "agrees"
    elif fails == len(claimed):
        verdict = "disagrees"
    count = (
        f" It holds at {holds} of {len(claimed)} places and fails at {fails}." if len(claimed) > 1 and judged else ""
    )
    few = len(claimed) - len(judged)
    if few:
        count += " Fewer than 5 seeds: no verdict" + (f" at {plural(few, 'place')}." if judged else ".")
    return Finding(
        "Claim 'with ge < ie the gate makes the model learn in context': squared error of the gated model against its "
        f"ungated twin {_told(claimed)} ({_zero(claimed)}; {_basis(claimed)}).{count}",
        verdict,
    )


def gate_can_help(link: Any) -> Literal["yes", "no", "undecided"]:
    """Whether the generative exponent of the link lies below its information exponent."""
    from iclab.theory import generative_exponent, information_exponent

    ie, ge = information_exponent(link), generative_exponent(link)
    if ie.undecided or ge.undecided:
        return "undecided"
    inf = float("inf")
    return "yes" if (inf if ge.value is None else ge.value) < (inf if ie.value is None else ie.value) else "no"


def _basis(twins: Sequence[Twins]) -> str:
    return basis_of_each(row for t in twins for row in (t.gated, t.ungated))


def _zero(twins: Sequence[Twins]) -> str:
    return f"predicting zero gives {spread(t.zero for t in twins)}"


def _told(twins: Sequence[Twins]) -> str:
    lengths = sorted({t.num_examples for t in twins})
    at = f"at N = {', '.join(map(str, lengths))}: "
    return at + "; ".join(
        f"{t.title + ': ' if t.title else ''}{quantity(t.gated)} against {quantity(t.ungated)}" for t in twins
    )
