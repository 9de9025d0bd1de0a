"""Crossings of a level: what is measured, what is a bound, and that no bound is fitted as if it were measured."""

import numpy as np
import pytest
from scipy import stats

from iclab.errors import InputError
from iclab.evaluation import Crossing, crossing_slope, examples_to_reach, mean_crossing, scaling_slope

LENGTHS = [0, 4, 16, 64]
ERRORS = [5.0, 0.5, 0.125, 0.03125]  # 2/N


@pytest.mark.parametrize(
    ("target", "value", "state"),
    [
        (0.2, 10.0, "measured"),  # 2/N = 0.2, exactly on log-log axes
        (0.125, 16.0, "measured"),
        (0.5, 4.0, "left"),  # between 0 and 4 a logarithm knows nothing
        (9.0, 0.0, "left"),
        (0.01, 64.0, "right"),
    ],
)
def test_the_length_that_reaches_an_error(target, value, state):
    found = examples_to_reach(LENGTHS, ERRORS, target)
    assert (found.value, found.state) == (pytest.approx(value), state)


def test_a_curve_below_the_target_at_the_first_length_is_a_bound():
    found = examples_to_reach([32, 64], [0.09, 0.03], 0.5)
    assert found == Crossing(32.0, "left")
    assert str(found) == "<= 32"
    assert str(examples_to_reach([32, 4096], [1.0, 0.9], 0.5)) == "> 4096"
    assert str(Crossing(10.0)) == "10"


def test_an_error_of_zero_is_approached_linearly():
    # log 0 would put the crossing at the length before, whatever the target.
    assert examples_to_reach([4, 16], [1.0, 0.0], 0.5).value == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("lengths", "errors", "target", "word"),
    [
        ([4, 4], [1.0, 0.5], 0.7, "increasing"),
        ([4, 8], [1.0], 0.7, "do not match"),
        ([], [], 0.7, "do not match"),
        ([4, 8], [1.0, 0.5], 0.0, "target"),
        ([4, 8], [np.nan, 0.5], 0.7, "non-finite"),
        ([4, 8], [np.inf, 0.5], 0.7, "non-finite"),
        ([4, 8], [1.0, -0.5], 0.7, "negative"),
        ([-4, 8], [1.0, 0.5], 0.7, "negative"),
    ],
)
def test_curves_without_a_crossing_to_look_for_are_refused(lengths, errors, target, word):
    with pytest.raises(InputError, match=word):
        examples_to_reach(lengths, errors, target)


def test_a_mean_with_a_bound_is_a_bound():
    assert mean_crossing([Crossing(2.0), Crossing(4.0)]) == Crossing(3.0)
    assert mean_crossing([Crossing(2.0, "left"), Crossing(4.0)]) == Crossing(3.0, "left")
    assert mean_crossing([Crossing(2.0, "right"), Crossing(4.0, "right")]) == Crossing(3.0, "right")
    assert mean_crossing([Crossing(2.0, "left"), Crossing(4.0, "right")]) is None
    assert mean_crossing([]) is None


def _censored(x, seeds, low, high):
    """Crossings ``x^2`` with noise of the seeds, cut to the measured range."""
    rng = np.random.default_rng(0)
    truth = x[None] ** 2 * np.exp(0.05 * rng.normal(size=(seeds, len(x))))
    rows = [
        [Crossing(low, "left") if v <= low else Crossing(high, "right") if v > high else Crossing(v) for v in row]
        for row in truth.tolist()
    ]
    return truth, rows


@pytest.mark.parametrize(
    ("low", "high", "used", "bound"),
    [
        (1.0, 1e9, (2.0, 4.0, 8.0, 16.0), "none"),
        (30.0, 1e9, (8.0, 16.0), "lower"),  # the small end hidden
        (1.0, 30.0, (2.0, 4.0), "lower"),  # the large end hidden
        (7.0, 100.0, (4.0, 8.0), "lower"),  # both
    ],
)
def test_bounds_enter_no_slope_and_bound_it(low, high, used, bound):
    x = np.array([2.0, 4.0, 8.0, 16.0])
    truth, rows = _censored(x, 5, low, high)
    found = crossing_slope(x.tolist(), rows)
    assert (found.used, found.bound, found.num_seeds) == (used, bound, 5)
    assert found.left_out == tuple(v for v in x if v not in used)
    chosen = np.isin(x, used)
    slopes = [stats.linregress(np.log(x[chosen]), np.log(row[chosen])).slope for row in truth]
    assert found.slope is not None
    assert found.slope.slope == pytest.approx(np.mean(slopes), abs=1e-12)
    whole = scaling_slope(x.tolist(), truth).slope
    if bound == "none":
        assert found.bound_slope is None
        assert found.slope.slope == pytest.approx(whole)
    else:
        assert found.bound_slope is not None
        assert 0 < found.bound_slope.slope < whole


def test_bounds_that_pull_both_ways_bound_nothing():
    # A falling law, and a small end that is hidden below: its true slope may be more or less steep.
    rows = [[Crossing(9.0, "left"), Crossing(4.0), Crossing(9.0, "left")]]
    assert crossing_slope([1.0, 2.0, 4.0], rows).bound == "none"
    falling = crossing_slope([1.0, 2.0, 4.0], [[Crossing(9.0, "right"), Crossing(4.0), Crossing(1.0)]])
    assert falling.bound == "upper"  # more steps at the smallest value make it fall faster
    assert falling.bound_slope is not None
    assert falling.bound_slope.slope == pytest.approx(np.log(1 / 9) / np.log(4))


def test_the_middle_of_three_geometric_values_has_no_weight():
    rows = [[Crossing(9.0), Crossing(3.0, "left"), Crossing(1.0)]]
    found = crossing_slope([1.0, 2.0, 4.0], rows)
    assert (found.used, found.left_out, found.bound) == ((1.0, 4.0), (2.0,), "none")


def test_two_bounds_make_no_slope():
    found = crossing_slope([16.0, 32.0], [[Crossing(32.0, "left")] * 2] * 5)
    assert (found.slope, found.used, found.bound) == (None, (), "none")


@pytest.mark.parametrize(
    ("x", "rows", "word"),
    [
        ([1.0, 2.0], [], "a row"),
        ([1.0, 2.0], [[Crossing(1.0)]], "a row"),
        ([2.0, 1.0], [[Crossing(1.0)] * 2], "increasing"),
        ([0.0, 1.0], [[Crossing(1.0)] * 2], "positive"),
    ],
)
def test_shapes_that_do_not_match_are_refused(x, rows, word):
    with pytest.raises(InputError, match=word):
        crossing_slope(x, rows)
