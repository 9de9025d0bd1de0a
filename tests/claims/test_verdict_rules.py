"""The rules by which numbers become verdicts, at their edges."""

import pytest

from iclab.claims.rules import MIN_SEEDS, judge_slope
from iclab.evaluation.intervals import MIN_SEEDS_FOR_BAND


@pytest.mark.parametrize(
    ("low", "high", "values", "seeds", "verdict"),
    [
        (-0.2, 0.25, 3, 5, "agrees"),
        (-0.2, 0.3, 3, 5, "undecided"),
        (0.26, 0.4, 3, 5, "disagrees"),
        (-0.4, -0.26, 3, 5, "disagrees"),
        (0.0, 0.0, 2, 5, "information"),  # two points always lie on a line
        (0.0, 0.0, 3, 4, "information"),
        (float("nan"), float("nan"), 3, 5, "information"),
    ],
)
def test_a_slope_needs_three_values_and_five_seeds(low, high, values, seeds, verdict):
    judged = judge_slope(low, high, 0.0, 0.25, num_values=values, num_seeds=seeds)
    assert judged.verdict == verdict
    assert ("no verdict" in judged.rule) == (verdict == "information")


def test_a_verdict_needs_the_seeds_that_an_interval_needs():
    assert MIN_SEEDS == MIN_SEEDS_FOR_BAND
