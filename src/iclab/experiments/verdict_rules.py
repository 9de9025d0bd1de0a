"""When numbers give a verdict, and which: rules that summaries of all kinds share, as functions of numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

from iclab.experiments.reading import Verdict

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
