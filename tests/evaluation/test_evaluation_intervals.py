"""Intervals: their coverage on data whose truth is known, and what is said below five seeds."""

import numpy as np
import pytest
from scipy.stats import t as student_t

from iclab.errors import InputError
from iclab.evaluation import Curve, Measurement, interval, pooled_value


def coverage(seeds: int, prompts: int, between: float, within: float, level: float, trials: int = 200) -> float:
    """Share of trials in which the interval of a mean of 1 holds 1."""
    hits = 0
    for trial in range(trials):
        rng = np.random.default_rng([seeds, prompts, trial])
        centres = 1 + between * rng.normal(size=seeds)
        samples = [(c + within * rng.normal(size=prompts))[None] for c in centres]
        band = interval(samples, level=level, resamples=400)
        hits += band.low <= 1 <= band.high
    return hits / trials


@pytest.mark.parametrize(
    ("seeds", "prompts", "between", "within"),
    [
        (5, 100, 1.0, 1.0),
        (5, 100, 1.0, 0.1),
        (10, 40, 1.0, 1.0),
        (20, 20, 1.0, 0.1),
        (1, 200, 0.0, 1.0),
        (8, 50, 0.2, 1.0),
    ],
)
def test_a_95_percent_interval_covers_the_truth_about_that_often(seeds, prompts, between, within):
    assert 0.9 <= coverage(seeds, prompts, between, within, 0.95) <= 0.995


def test_seeds_that_do_not_differ_make_the_interval_wide_never_short():
    """Resampling two levels counts the noise of prompts twice where the seeds add none."""
    assert coverage(12, 30, 0.0, 1.0, 0.95) >= 0.95


def test_a_lower_level_is_narrower_and_covers_less():
    assert 0.62 <= coverage(12, 40, 1.0, 1.0, 0.8) <= 0.9


def test_one_seed_says_nothing_about_other_seeds():
    rng = np.random.default_rng(0)
    band = interval([rng.normal(size=(1, 500))])
    assert (band.kind, band.level) == ("prompts", 0.95)
    # The bootstrap of a mean has the width of the normal interval.
    assert band.high - band.low == pytest.approx(2 * 1.96 / 500**0.5, rel=0.15)


@pytest.mark.parametrize("seeds", [2, 3, 4])
def test_two_to_four_seeds_show_their_range(seeds):
    values = [3.0, 1.0, 2.0, 5.0][:seeds]
    band = interval([np.full((1, 10), v) for v in values])
    assert (band.low, band.high, band.kind) == (min(values), max(values), "range")
    assert np.isnan(band.level)


def test_five_seeds_show_a_band_that_is_the_same_each_time():
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=(1, 30)) for _ in range(5)]
    assert interval(samples).kind == "bootstrap"
    assert interval(samples) == interval([s.copy() for s in samples])


def test_the_band_of_seeds_is_wider_than_that_of_their_pooled_prompts():
    """Never a band over prompts presented as uncertainty over seeds."""
    rng = np.random.default_rng(1)
    samples = [(c + 0.1 * rng.normal(size=1000))[None] for c in rng.normal(size=8)]
    seeds, pooled = interval(samples), interval([np.concatenate(samples, 1)])
    assert seeds.high - seeds.low > 4 * (pooled.high - pooled.low)
    # Its width is that of a mean of eight numbers.
    centres = np.array([s.mean() for s in samples])
    assert seeds.high - seeds.low == pytest.approx(2 * student_t.ppf(0.975, 7) * centres.std(ddof=1) / 8**0.5, rel=0.1)


def test_exact_numbers_have_no_sampling():
    one = interval([np.array([[0.7]])], "exact")
    assert (one.low, one.high, one.kind) == (0.7, 0.7, "exact")
    two = interval([np.array([[0.7]]), np.array([[0.9]])], "exact")
    assert (two.low, two.high) == (0.7, 0.9)
    measurement = Measurement.exact("theory", "alignment", 0.7, 100, {"gate": "mamba"})
    assert (measurement.value, measurement.num_prompts, measurement.num_examples) == (0.7, 0, 100)


def test_one_number_of_one_seed_has_no_interval():
    band = interval([np.array([[0.7]])])
    assert band.kind == "none"
    assert np.isnan(band.low)


def test_the_alignment_statistic_is_a_ratio_of_means():
    rng = np.random.default_rng(0)
    projection = 2 + rng.normal(size=4000)
    samples = np.stack([projection, projection**2 + 4])
    # E a / sqrt(E e) = 2 / sqrt(2^2 + 1 + 4) = 2/3, not the mean of a / sqrt(e).
    band = interval([samples], "alignment")
    assert band.low <= 2 / 3 <= band.high
    assert Measurement("m", "alignment", samples, "alignment").value == pytest.approx(2 / 3, abs=0.02)
    delta = (projection / 2 - samples[1] / 18).std() * 2 / 3 / 4000**0.5
    assert band.high - band.low == pytest.approx(2 * 1.96 * delta, rel=0.15)
    assert pooled_value([samples, samples], "alignment") == pytest.approx(
        Measurement("m", "alignment", samples, "alignment").value
    )


def test_a_curve_has_the_interval_of_each_length():
    rng = np.random.default_rng(0)
    samples = tuple(rng.normal(size=(3, 20)) for _ in range(6))
    bands = Curve("a", "m", (1, 2, 4), samples).intervals(level=0.9)
    assert bands == [interval([s[None, i] for s in samples], level=0.9) for i in range(3)]
    assert {b.level for b in bands} == {0.9}


def test_wrong_requests_are_refused():
    with pytest.raises(InputError, match="no seeds"):
        interval([])
    for level in (0.0, 1.0, 95.0):
        with pytest.raises(InputError, match="level"):
            interval([np.zeros((1, 3))], level=level)
    with pytest.raises(InputError, match="statistic"):
        interval([np.zeros((1, 3))], "median")
    with pytest.raises(InputError, match="statistic"):
        Measurement("a", "m", np.zeros((1, 3)), "median")
    with pytest.raises(InputError, match="shape"):
        Measurement("a", "m", np.zeros(3))


@pytest.mark.parametrize(
    ("samples", "level", "message"),
    [
        (np.zeros((5, 10)), 0.95, "samples are an array of shape"),
        ([np.zeros(10)] * 5, 0.95, "one array of shape"),
        ([np.zeros((1, 10))] * 5, "a", "level is 'a'"),
        ([np.zeros((1, 10))] * 5, True, "level is True"),
        (3, 0.95, "samples are 3"),
    ],
)
def test_wrong_samples_and_levels_are_named(samples, level, message):
    with pytest.raises(InputError, match=message):
        interval(samples, level=level)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_samples_that_are_not_finite_have_no_interval(bad, seeds):
    samples = [np.array([[1.0, 2.0, 3.0]]) for _ in range(seeds)]
    samples[-1][0, 1] = bad
    band = interval(samples)
    assert band.kind == "none"
    assert np.isnan([band.low, band.high, band.level]).all()


def test_exact_ends_may_be_infinite_and_are_nan_wherever_a_value_is():
    one, no, inf = (np.array([[v]]) for v in (1.0, np.nan, np.inf))
    band = interval([one, inf], "exact")
    assert (band.low, band.high) == (1.0, np.inf)
    for order in ([one, no], [no, one]):
        band = interval(order, "exact")
        assert np.isnan([band.low, band.high]).all()


@pytest.mark.parametrize(
    ("samples", "statistic", "message"),
    [
        (np.zeros((1, 0)), "mean", "at least one prompt"),
        (np.zeros((2, 3)), "mean", r"expected \(1, prompts\)"),
        (np.zeros((1, 3)), "alignment", r"expected \(2, prompts\)"),
        (np.zeros((1, 3)), "exact", r"expected \(1, 1\)"),
        (np.array([["a"]]), "mean", "real numbers"),
        (np.array([[1j]]), "mean", "real numbers"),
    ],
)
def test_samples_fit_their_statistic(samples, statistic, message):
    for use in (
        lambda: interval([samples], statistic),
        lambda: Measurement("a", "m", samples, statistic),
        lambda: pooled_value([samples], statistic),
    ):
        with pytest.raises(InputError, match=message):
            use()


def test_nothing_to_average_or_resample_is_refused():
    with pytest.raises(InputError, match="no seeds"):
        pooled_value([], "mean")
    with pytest.raises(InputError, match="resamples"):
        interval([np.zeros((1, 3))], resamples=0)
    for samples in ((), (np.zeros((2, 0)),), (np.zeros((1, 3)),), (np.zeros(3),)):
        with pytest.raises(InputError, match="the samples of a curve"):
            Curve("a", "m", (1, 2), samples)
