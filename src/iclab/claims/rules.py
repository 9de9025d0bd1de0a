"""When numbers give a verdict, and which. Every verdict follows these rules, and names those that it followed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from iclab.claims.claim import VERDICTS, Claim, ClaimResult, Estimate, Reason, Relation, Rule, Size, Verdict
from iclab.errors import InputError, cut

MIN_SEEDS = 5
"""Seeds that a verdict needs: fewer have no interval that says anything of other seeds."""

MIN_VALUES = 3
"""Measured values of the abscissa that a verdict about a slope needs: two points always lie on a line."""

MOST_SIZE = 100_000
"""A larger number of seeds or prompts than this is not suggested: there the estimate lies on the threshold."""

SEEDS = Rule(
    "seeds",
    f"A verdict needs at least {MIN_SEEDS} seeds: fewer have no interval that says anything of other seeds. Exact "
    "numbers need none.",
)
INTERVAL = Rule(
    "interval",
    "A claim is supported where the whole 95 % interval satisfies its relation, contradicted where none of it does, "
    "and undecided where the interval reaches over the threshold. Where no query at all was wrong, the upper end of an "
    "error is 3 divided by the number of prompts. Seeds that could decide: the interval's half-width is taken to "
    "shrink like one over the root of the number of seeds, around the same estimate.",
)
SLOPE = Rule(
    "slope",
    f"A slope is judged where it rests on at least {MIN_VALUES} values of the abscissa at which every seed's crossing "
    "was measured. A crossing outside the measured range is a bound and enters no slope.",
)
EXACT = Rule("exact", "Exact numbers are compared as they are, without interval.")
EVERY = Rule(
    "every number",
    "A claim about several numbers is supported where each is, contradicted where one is, and undecided otherwise; "
    "each is judged by its own 95 % interval, which is not widened for their number.",
)
GRID = Rule(
    "grid points",
    "A claim is judged at each grid point by itself; nothing is averaged over settings. Over all of them it is "
    "supported where it is at each, contradicted where it is at each, and undecided otherwise. Grid points at which it "
    "is not applicable do not count.",
)


def judge(
    claim: Claim,
    estimates: Estimate | Sequence[Estimate],
    *,
    subject: str = "",
    at: str = "",
    settings: Mapping[str, Any] | None = None,
    unmet: str = "",
    too_little: bool = False,
    remarks: Sequence[str] = (),
) -> ClaimResult:
    """Judge a claim by numbers, all of which have to satisfy its relation.

    Args:
        claim: what is claimed.
        estimates: one number or several; none at all is ``undecided``.
        subject, at, settings, remarks: as in `ClaimResult`.
        unmet: the condition of the claim that fails here, if one does: the claim is not applicable then.
        too_little: the numbers are too easy a part of the claim to support it.

    Returns:
        The verdict with the rules that it followed.
    """
    numbers = tuple(estimates) if isinstance(estimates, Sequence) else (estimates,)
    if not all(isinstance(number, Estimate) for number in numbers):
        raise InputError(f"an estimate of claim {claim.id!r} is {cut(numbers)}; expected an Estimate, or several")
    found = ClaimResult(
        claim,
        "not applicable" if unmet else "undecided",
        "condition" if unmet else "not measured",
        tuple(_widened(number) for number in numbers),
        rules_for(numbers),
        subject,
        at,
        settings or {},
        unmet,
        remarks=tuple(filter(None, remarks)),
    )
    if not numbers:
        return found
    judged = [_compare(claim, number) for number in found.estimates]
    verdict = every([verdict for verdict, _ in judged])
    excess = [_excess(claim, number) if judged[i][0] == verdict else -math.inf for i, number in enumerate(numbers)]
    decisive = max(range(len(numbers)), key=lambda i: (judged[i][0] == verdict, excess[i]))
    found = replace(found, decisive=decisive)
    if unmet:
        return found
    reason = judged[decisive][1]
    if verdict == "contradicted" and not claim.refutable:
        verdict, reason = "undecided", "refutes nothing"
    if verdict == "supported" and too_little:
        verdict, reason = "undecided", "measured too little"
    sizes = [_size(claim, found.estimates[i], why) for i, (one, why) in enumerate(judged) if one == "undecided"]
    return replace(
        found,
        verdict=verdict,
        reason=reason,
        size_that_could_decide=_largest(sizes) if verdict == "undecided" else None,
    )


def every(verdicts: Sequence[Verdict]) -> Verdict:
    """What several numbers of one claim come to, by the rule `EVERY`."""
    order: tuple[Verdict, ...] = ("contradicted", "undecided", "supported")
    return next((verdict for verdict in order if verdict in verdicts), "not applicable")


def overall(results: Sequence[ClaimResult]) -> Verdict:
    """Combine the verdicts of one claim at several grid points by the rule `GRID`."""
    found = {result.verdict for result in results} - {"not applicable"}
    if not found:
        return "not applicable"
    return found.pop() if len(found) == 1 else "undecided"


def groups(results: Sequence[ClaimResult]) -> list[list[ClaimResult]]:
    """Group the results of the same claim about the same subject, which differ in the grid point alone."""
    found: dict[tuple[str, str], list[ClaimResult]] = {}
    for result in results:
        found.setdefault((result.claim.id, result.subject), []).append(result)
    return list(found.values())


def tally(results: Sequence[ClaimResult]) -> dict[Verdict, int]:
    """Count the claims (`groups`) with each verdict; verdicts that none has are left out."""
    verdicts = [overall(group) for group in groups(results)]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}


def upper_end(value: float, high: float, trials: int) -> float:
    """The upper end of the interval of a share. Where none of ``trials`` was one, the bootstrap's interval is a point;
    then it is 3 divided by their number (rule of three)."""
    return high if value > 0 else 3.0 / max(1, trials)


def _widened(number: Estimate) -> Estimate:
    """The estimate with the upper end of `upper_end` where it is a share."""
    interval = number.interval
    if not number.share or interval is None or interval.kind == "exact":
        return number
    high = upper_end(number.value, interval.high, number.seeds * number.prompts)
    return replace(number, interval=replace(interval, high=high))


def rules_for(numbers: Sequence[Estimate]) -> tuple[Rule, ...]:
    """The rules that a verdict from these numbers follows."""
    exact = all(n.interval is not None and n.interval.kind == "exact" for n in numbers)
    first = (EXACT,) if exact and numbers else (SEEDS, INTERVAL)
    slope = (SLOPE,) if any(n.values is not None for n in numbers) else ()
    return (*first, *slope, *((EVERY,) if len(numbers) > 1 else ()))


def _relation(claim: Claim, number: Estimate) -> Relation:
    return number.relation or claim.relation


def _threshold(claim: Claim, number: Estimate) -> float:
    return claim.threshold if number.threshold is None else number.threshold


def _ends(claim: Claim, number: Estimate) -> tuple[float, float]:
    """The interval of numbers that satisfy the relation."""
    threshold = _threshold(claim, number)
    match _relation(claim, number):
        case "<":
            return -math.inf, threshold
        case ">":
            return threshold, math.inf
        case "within":
            return threshold - claim.tolerance, threshold + claim.tolerance
        case "=":
            return threshold, threshold


def _compare(claim: Claim, number: Estimate) -> tuple[Verdict, Reason]:
    interval = number.interval
    if interval is None or interval.kind != "exact":
        if number.seeds < MIN_SEEDS or (interval is not None and interval.kind in ("range", "prompts")):
            return "undecided", "few seeds"
        if number.values is not None and number.values < MIN_VALUES:
            return "undecided", "few values"
        if interval is None:
            return "undecided", "no interval"
    low, high = _ends(claim, number)
    if any(map(math.isnan, (low, high, interval.low, interval.high))):
        return "undecided", "unresolved"
    strict = _relation(claim, number) in ("<", ">")
    inside = low < interval.low and interval.high < high if strict else low <= interval.low and interval.high <= high
    if inside:
        return "supported", "whole interval"
    if interval.low > high + number.slack or interval.high < low - number.slack:
        return "contradicted", "whole interval"
    if interval.kind == "exact" and interval.low == interval.high:
        return "contradicted", "whole interval"  # on the threshold of a strict relation
    return "undecided", "straddles"


def _excess(claim: Claim, number: Estimate) -> float:
    """How far the number lies on the wrong side of its threshold; negative on the right side."""
    low, high = _ends(claim, number)
    excess = max(low - number.value, number.value - high)
    return excess if not math.isnan(excess) else math.inf


def _size(claim: Claim, number: Estimate, reason: Reason) -> Size | None:
    """What could decide, for a number that does not."""
    if reason == "few seeds":
        return Size(seeds=MIN_SEEDS)
    if reason == "few values":
        return Size(values=MIN_VALUES)
    interval = number.interval
    if reason != "straddles" or interval is None or interval.kind == "exact":
        return None
    if not claim.refutable and _excess(claim, number) > 0:
        return None  # a smaller interval around it would refute nothing
    if number.share and number.value == 0:
        needed = math.floor(3 / (number.seeds * _threshold(claim, number))) + 1
        return Size(prompts=needed) if needed <= MOST_SIZE else None
    needed = number.seeds
    for edge in _ends(claim, number):
        if interval.low <= edge <= interval.high:
            gap = abs(number.value - edge)
            width = number.value - interval.low if edge < number.value else interval.high - number.value
            if gap * math.sqrt(MOST_SIZE) <= width * math.sqrt(number.seeds):
                return None
            needed = max(needed, math.floor(number.seeds * (width / gap) ** 2) + 1)
    return Size(seeds=needed) if needed > number.seeds else None


def _largest(sizes: Sequence[Size | None]) -> Size | None:
    """What decides all of several numbers."""
    if not sizes or any(size is None for size in sizes):
        return None
    present = [size for size in sizes if size is not None]

    def most(name: str) -> int | None:
        return max((value for size in present if (value := getattr(size, name)) is not None), default=None)

    return Size(most("seeds"), most("prompts"), most("values"))
