"""When numbers give a verdict, and which: rules that summaries of all kinds share, as functions of numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

from iclab.results.page import Verdict

MIN_SEEDS = 5
"""Seeds that a verdict needs: fewer have no interval that says anything of other seeds."""

MIN_VALUES = 3
"""Measured values of the abscissa that a verdict about a slope needs: two points always lie on a line."""

SLOPE_RULE = (
    f"A slope is judged where it rests on at least {MIN_VALUES} values of the abscissa at which every seed's crossing "
    f"was measured, and on at least {MIN_SEEDS} seeds: it agrees where its whole 95 % interval lies within the "
    "tolerance of the claimed one, disagrees where all of it lies farther off, and is undecided otherwise. A crossing "
    "outside the measured range is a bound and enters no slope."
)


MOST_TAIL = 0.1
"""Relative variance of a simulated energy, from rare examples alone and for one seed, above which its interval is not
judged: with 0.1 its relative standard error is a third."""

CHANCE = 0.05
"""Of a point to lie outside its interval, and of a verdict "disagrees" by chance."""

COVERAGE_RULE = (
    "A count of exact values inside simulated intervals is judged where all points have at least "
    f"{MIN_SEEDS} seeds. It agrees if no more values lie outside their 95 % intervals than 95 % of binomial draws at "
    "5 % would put there; it disagrees if more than half do (chance at most 10 %, however the points depend on each "
    "other), or if one lies outside its interval widened for the number of points (Bonferroni, with Student's "
    "quantiles); between these it is undecided. A point enters the count only where the fourth moments of its energy "
    f"exist and its sample can see them: theory's tail ratio is at most {MOST_TAIL:g} of the number of prompts of a "
    "seed."
)


@dataclass(frozen=True)
class Judgement:
    """A verdict and the rule that made it, in words; the verdict is ``information`` where there is none."""

    verdict: Verdict
    rule: str


def judge_slope(
    low: float, high: float, claimed: float, tolerance: float, *, num_values: int, num_seeds: int
) -> Judgement:
    """Judge the interval ``[low, high]`` of a slope that rests on ``num_values`` measured values of the abscissa."""
    if num_seeds < MIN_SEEDS:
        return Judgement("information", f"Fewer than {MIN_SEEDS} seeds: no verdict.")
    if num_values < MIN_VALUES:
        return Judgement("information", f"Fewer than {MIN_VALUES} measured values: no verdict.")
    if not low <= high:
        return Judgement("information", "No interval: no verdict.")
    if max(claimed - low, high - claimed) <= tolerance:
        return Judgement("agrees", f"The whole interval lies within {tolerance:g} of {claimed:g}.")
    if low > claimed + tolerance or high < claimed - tolerance:
        return Judgement("disagrees", f"The whole interval lies farther than {tolerance:g} from {claimed:g}.")
    return Judgement("undecided", f"The interval lies partly within {tolerance:g} of {claimed:g}.")


def has_light_tail(tail_ratio: float, num_prompts: int) -> bool:
    """Whether an interval of an energy over ``num_prompts`` may be judged; see `iclab.theory.tail_ratio`.
    Not where the ratio is infinite or NaN."""
    return tail_ratio <= MOST_TAIL * num_prompts


def allowed_outside(points: int) -> int:
    """How many of ``points`` may lie outside 95 % intervals: the 95 % quantile of the binomial."""
    from scipy.stats import binom

    return int(binom.ppf(1 - CHANCE, points, CHANCE))


def widening(points: int, num_seeds: int) -> float:
    """How much wider Student's interval over seeds is when 5 % is divided among all points."""
    from scipy.stats import t as student_t

    wide, narrow = (student_t.isf(tail, num_seeds - 1) for tail in (CHANCE / 2 / points, CHANCE / 2))
    return float(wide / narrow)


def judge_coverage(points: int, outside: int, far_outside: int, *, num_seeds: int) -> Judgement:
    """Judge how many of ``points`` exact values lie ``outside`` their intervals, and outside the widened ones
    (``far_outside``); ``num_seeds`` is the least of any point."""
    if num_seeds < MIN_SEEDS:
        return Judgement("information", f"Fewer than {MIN_SEEDS} seeds somewhere: no verdict.")
    if points == 0:
        return Judgement("information", "No point has a sample that can see its moments: no verdict.")
    if outside > points / 2:
        return Judgement("disagrees", "More than half lie outside.")
    if far_outside:
        return Judgement("disagrees", "One lies outside even its interval widened for the number of points.")
    if outside <= allowed_outside(points):
        return Judgement("agrees", "No more lie outside than chance would put there.")
    return Judgement("undecided", "More lie outside than chance would put there, but none far and not half.")
