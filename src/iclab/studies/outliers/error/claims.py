"""Claims judged at each place of a grid by itself, and what many such verdicts come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iclab.results.page import Finding, Verdict

MOST_PLACES = 9
"""Up to so many places a claim has a sentence for each."""

_NAMED = 6


@dataclass(frozen=True)
class Judged:
    """A claim at one place of the grid.

    Attributes:
        claim: in words that are the same at every place.
        place: the place's title.
        finding: what the numbers say there.
    """

    claim: str
    point: str
    finding: Finding

    def unless(self, reason: str) -> Judged:
        """Without a verdict where there is a ``reason``, which is added to the sentence."""
        if not reason:
            return self
        return replace(self, finding=Finding(self.finding.text + reason))


def findings_of(judged: Sequence[Judged]) -> list[Finding]:
    """A finding for each place, or, of a claim with many places, one that counts them."""
    found = []
    for claim in dict.fromkeys(item.claim for item in judged):
        mine = [item for item in judged if item.claim == claim]
        found.extend([item.finding for item in mine] if len(mine) <= MOST_PLACES else [_counted(claim, mine)])
    return found


def _counted(claim: str, judged: Sequence[Judged]) -> Finding:
    by_verdict: dict[Verdict, list[str]] = {"agrees": [], "disagrees": [], "undecided": [], "information": []}
    for item in judged:
        by_verdict[item.finding.verdict].append(item.point)
    words = {"agrees": "holds", "disagrees": "fails", "undecided": "is undecided", "information": "is not judged"}
    told = "; ".join(
        f"it {words[verdict]} at {len(points)}{_named(points) if len(points) < len(judged) else ''}"
        for verdict, points in by_verdict.items()
        if points
    )
    holds, fails = len(by_verdict["agrees"]), len(by_verdict["disagrees"])
    verdict: Verdict = "undecided"
    if len(by_verdict["information"]) == len(judged):
        verdict = "information"
    elif holds and holds + len(by_verdict["information"]) == len(judged):
        verdict = "agrees"
    elif fails and fails + len(by_verdict["information"]) == len(judged):
        verdict = "disagrees"
    return Finding(f"{claim}, at {len(judged)} places of the grid, each judged by itself: {told}.", verdict)


def _named(points: Sequence[str]) -> str:
    return f" ({'; '.join(points[:_NAMED])}{'; ...' if len(points) > _NAMED else ''})"
