"""Sentences about claims, rendered from their results."""

from __future__ import annotations

from collections.abc import Sequence

from iclab.claims.claim import VERDICTS, Claim, ClaimResult, Estimate, Interval, Reason, Relation
from iclab.claims.rules import MIN_SEEDS, MIN_VALUES
from iclab.results.wording import number, plural, span

_SHOWN_NUMBERS = 4
_NAMED = 6
_RELATIONS: dict[Relation, str] = {"<": "below", ">": "above", "=": "equal to", "within": "within"}
_REASONS: dict[Reason, str] = {
    "few seeds": f"Fewer than {MIN_SEEDS} seeds: no verdict.",
    "few values": f"Fewer than {MIN_VALUES} measured values: no verdict.",
    "no interval": "There is no interval: no verdict.",
    "not measured": "It was not measured here: no verdict.",
    "unresolved": "A number that it rests on is undecided itself: no verdict.",
    "refutes nothing": "A number on the other side refutes nothing.",
    "measured too little": "What was measured is too easy a part of the claim.",
    "chance": "No more lie outside than chance would put there.",
    "half": "More than half lie outside.",
    "far": "One lies outside even its interval widened for the number of points.",
    "more than chance": "More lie outside than chance would put there, but none far and not half.",
}


def claim_text(result: ClaimResult) -> str:
    """Render a result in full, with its claim."""
    return f"{_lead(result, result.subject, result.at)}: {_body(result)}"


def point_text(result: ClaimResult) -> str:
    """Render what a result says at its grid point, below a `group_text`."""
    return f"{result.at or 'here'}: {_body(result)}"


def group_text(results: Sequence[ClaimResult]) -> str:
    """Render several results of one claim: at how many grid points it has which verdict, and at which."""
    first = results[0]
    counts = []
    for verdict in VERDICTS:
        names = [result.at for result in results if result.verdict == verdict]
        if names:
            counts.append(f"{verdict} at {len(names)}{_named(names) if len(names) < len(results) else ''}")
    where = plural(len(results), "grid point")
    return f"{_lead(first, first.subject)}, at {where}, each judged by itself: {'; '.join(counts)}."


def claims_text(results: Sequence[ClaimResult]) -> str:
    """Render one result in full, or several as a group."""
    return claim_text(results[0]) if len(results) == 1 else group_text(results)


def claimed_text(claim: Claim, estimate: Estimate | None = None) -> str:
    """``below 0.02``, ``within 0.25 of 1``; with the estimate's own relation and threshold where it has them."""
    relation = (estimate and estimate.relation) or claim.relation
    threshold = claim.threshold if estimate is None or estimate.threshold is None else estimate.threshold
    if relation == "within":
        return f"within {number(claim.tolerance)} of {number(threshold)}"
    return f"{_RELATIONS[relation]} {number(threshold)}"


def estimate_text(estimate: Estimate) -> str:
    """``0.262 (0.241 to 0.285)``; without an interval where there is none or the number is exact."""
    interval = estimate.interval
    if interval is None or interval.kind == "exact":
        return number(estimate.value)
    return f"{number(estimate.value)} {interval_text(interval)}"


def interval_text(interval: Interval) -> str:
    """``(0.241 to 0.285)``."""
    return f"({number(interval.low)} to {number(interval.high)})"


def basis_text(estimates: Sequence[Estimate]) -> str:
    """``5 seeds, 128 prompts each``; empty where all numbers are exact."""
    measured = [estimate for estimate in estimates if estimate.seeds]
    if not measured:
        return ""
    prompts = [estimate.prompts for estimate in measured if estimate.prompts > 1]
    return span((e.seeds for e in measured), "seed") + (f", {span(prompts, 'prompt')} each" if prompts else "")


def reason_text(result: ClaimResult) -> str:
    """Why the verdict is what it is, and what could decide an undecided one."""
    if result.reason == "condition":
        return f"Not applicable: the claim is about settings in which {result.condition}."
    text = _REASONS.get(result.reason, "")
    if result.reason == "straddles" and result.estimate:
        text = "The interval reaches over the claimed bound."
    if result.reason == "whole interval":
        exact = all(e.interval is not None and e.interval.kind == "exact" for e in result.estimates)
        many = len(result.estimates) > 1
        one = "Each number" if many else "The number"
        holds = one if exact else f"The whole interval{' of each' * many}"
        fails = "The number does not satisfy" if exact else "No part of its interval satisfies"
        text = f"{holds} satisfies the claim." if result.verdict == "supported" else f"{fails} the claim."
    size = result.size_that_could_decide
    if size is not None:
        parts = [(size.seeds, "seed"), (size.prompts, "prompt"), (size.values, "measured value")]
        told = ", ".join(plural(count, noun) for count, noun in parts if count is not None)
        text += f" {'At least' if result.reason.startswith('few') else 'About'} {told} could decide."
    return text.strip()


def _lead(result: ClaimResult, *where: str) -> str:
    """``Claim 'the error is small' (Mamba; r = 2)``."""
    named = "; ".join(filter(None, where))
    return f"Claim '{result.claim.sentence}'{f' ({named})' if named else ''}"


def _body(result: ClaimResult) -> str:
    basis = basis_text(result.estimates)
    said = f"{_numbers(result)}{f' ({basis})' if basis else ''}. " if result.estimates else ""
    parts = [f"{said}{reason_text(result)}", *result.remarks]
    return " ".join(part for part in parts if part)


def _numbers(result: ClaimResult) -> str:
    """The numbers with what is claimed of them; of many, the one that decides."""
    claim, estimates = result.claim, result.estimates
    shown = estimates if len(estimates) <= _SHOWN_NUMBERS else (result.estimate,)
    several = len({claimed_text(claim, e) for e in estimates}) > 1
    parts = []
    for e in filter(None, shown):
        label = f"{e.label} " if e.label else ""
        parts.append(f"{label}{estimate_text(e)}{f' (claimed {claimed_text(claim, e)})' if several else ''}")
    left = len(estimates) - len(parts)
    which = f" (the one of {len(estimates)} numbers that decides)" if left else ""
    claimed = "" if several else f", claimed {claimed_text(claim, estimates[0])}"
    return f"{claim.statistic}{which} {'; '.join(parts)}{claimed}"


def _named(points: Sequence[str]) -> str:
    return f" ({'; '.join(points[:_NAMED])}{'; ...' if len(points) > _NAMED else ''})"
