"""The claim of arXiv 2510.12026 about the gate, from the errors of a gated model and of its ungated twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iclab.experiments.reading import Finding, Verdict
from iclab.experiments.series import basis, number, quantity

if TYPE_CHECKING:
    import pandas as pd

_LEARNS = 0.9  # of the error of predicting zero


@dataclass(frozen=True)
class Twins:
    """A gated model and its ungated twin at one place of the grid.

    Attributes:
        title: the place.
        link: its link, as configured.
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


def gate_findings(twins: Sequence[Twins]) -> list[Finding]:
    """For links with ge < ie: does the gated model learn in context while its twin does not? For the others the paper
    claims nothing about the gate, and the numbers are information.

    A model learns if the whole interval of its error lies below 0.9 of the error of predicting zero on the same
    prompts, and does not if it lies above.
    """
    exponents = {str(t.link): _exponents(t.link) for t in twins}
    claimed = [t for t in twins if exponents[str(t.link)][1] < exponents[str(t.link)][0]]
    others = [t for t in twins if t not in claimed]
    findings = []
    if claimed:
        holds = [t for t in claimed if t.gated["high"] < _LEARNS * t.zero < t.ungated["low"]]
        fails = [t for t in claimed if t.gated["low"] > _LEARNS * t.zero or t.ungated["high"] < _LEARNS * t.zero]
        verdict: Verdict = "undecided"
        if len(holds) == len(claimed):
            verdict = "agrees"
        elif len(fails) == len(claimed):
            verdict = "disagrees"
        count = (
            f" It holds at {len(holds)} of {len(claimed)} places and fails at {len(fails)}." if len(claimed) > 1 else ""
        )
        findings.append(
            Finding(
                "Claim 'with ge < ie the gate makes the model learn in context': squared error of the gated "
                "model against "
                f"its ungated twin {_told(claimed)} ({_zero(claimed)}; {basis(claimed[0].gated)}).{count}",
                verdict,
            )
        )
    if others:
        findings.append(
            Finding(
                "Links with ge = ie, for which nothing is claimed of the gate: squared error of the gated model "
                "against its "
                f"ungated twin {_told(others)} ({basis(others[0].gated)})."
            )
        )
    return findings


def _zero(twins: Sequence[Twins]) -> str:
    values = [t.zero for t in twins]
    spread = number(values[0]) if len(values) == 1 else f"{number(min(values))} to {number(max(values))}"
    return f"predicting zero gives {spread}"


def _told(twins: Sequence[Twins]) -> str:
    lengths = sorted({t.num_examples for t in twins})
    at = f"at N = {', '.join(map(str, lengths))}: "
    return at + "; ".join(
        f"{t.title + ': ' if t.title else ''}{quantity(t.gated)} against {quantity(t.ungated)}" for t in twins
    )


def _exponents(link: Any) -> tuple[float, float]:
    """``(ie, ge)``; infinite where none was found."""
    from iclab.theory import generative_exponent, information_exponent

    ie, ge = information_exponent(link).value, generative_exponent(link).value
    return float("inf") if ie is None else ie, float("inf") if ge is None else ge
