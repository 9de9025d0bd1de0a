"""The rule for counts of exact values inside simulated intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from iclab.claims.claim import Claim, ClaimResult, Estimate, Interval, Reason, Rule, Verdict
from iclab.claims.rules import MIN_SEEDS, SEEDS, judge

MOST_TAIL = 0.1
"""Relative variance of a simulated energy, from rare examples alone and for one seed, above which its interval is not
judged: with 0.1 its relative standard error is a third."""

CHANCE = 0.05
"""Of a point to lie outside its interval, and of a verdict "contradicted" by chance."""

COVERAGE = Rule(
    "coverage",
    "A count of exact values inside simulated intervals supports theory if no more values lie outside their 95 % "
    "intervals than 95 % of binomial draws at 5 % would put there; it contradicts theory if more than half do (chance "
    "at most 10 %, however the points depend on each other), or if one lies outside its interval widened for the "
    "number of points (Bonferroni, with Student's quantiles); between these it is undecided. A point enters the count "
    "only where the fourth moments of its energy exist and its sample can see them: theory's tail ratio is at most "
    f"{MOST_TAIL:g} of the number of prompts of a seed.",
)


def has_light_tail(tail_ratio: float, num_prompts: int) -> bool:
    """Return whether an interval of an energy over ``num_prompts`` may be judged; see `iclab.theory.tail_ratio`.
    Not where the ratio is infinite or NaN."""
    return tail_ratio <= MOST_TAIL * num_prompts


def allowed_outside(points: int) -> int:
    """Return how many of ``points`` may lie outside 95 % intervals: the 95 % quantile of the binomial."""
    from scipy.stats import binom

    return int(binom.ppf(1 - CHANCE, points, CHANCE))


def widening(points: int, num_seeds: int) -> float:
    """Return how much wider Student's interval over seeds is when 5 % is divided among all points."""
    from scipy.stats import t as student_t

    wide, narrow = (student_t.isf(tail, num_seeds - 1) for tail in (CHANCE / 2 / points, CHANCE / 2))
    return float(wide / narrow)


def judge_coverage(
    claim: Claim,
    points: int,
    outside: int,
    far_outside: int,
    *,
    num_seeds: int,
    num_prompts: int = 0,
    remarks: Sequence[str] = (),
) -> ClaimResult:
    """Judge how many exact values lie outside simulated intervals.

    Args:
        claim: the claim; its one condition is that there are points that enter the count.
        points: that enter the count.
        outside: of these, outside their intervals.
        far_outside: of these, outside the widened ones.
        num_seeds, num_prompts: the fewest of any point.
        remarks: further facts.
    """
    allowed = allowed_outside(points) if points else 0
    count = Interval(outside, outside, math.nan, "exact")
    number = Estimate(outside, count, num_seeds, num_prompts, f"of {points} points", "<", allowed + 1)
    found = judge(claim, number, unmet="" if points else claim.conditions[0], remarks=remarks)
    found = replace(found, rules=(SEEDS, COVERAGE))
    if not points:
        return found
    verdict, reason = _judged(points, outside, far_outside, allowed, num_seeds)
    return replace(found, verdict=verdict, reason=reason)


def _judged(points: int, outside: int, far_outside: int, allowed: int, num_seeds: int) -> tuple[Verdict, Reason]:
    if num_seeds < MIN_SEEDS:
        return "undecided", "few seeds"
    if outside > points / 2:
        return "contradicted", "half"
    if far_outside:
        return "contradicted", "far"
    return ("supported", "chance") if outside <= allowed else ("undecided", "more than chance")
