"""Sums of powers of retention factors against exact rational arithmetic and 100-digit closed forms."""

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.theory.geometric import decay_sums, retained_variance

LOSSES = st.one_of(st.floats(0, 1), st.floats(-15, 0).map(lambda e: 10.0**e), st.sampled_from([0.0, 1e-12, 0.5, 1.0]))


@settings(max_examples=150, deadline=None)
@given(loss=LOSSES, loss2=LOSSES, count=st.integers(0, 24))
def test_sums_added_term_by_term_in_fractions(loss, loss2, count):
    q, q2 = 1 - Fraction(loss), 1 - Fraction(loss2)
    plain = sum((q ** (count - j) for j in range(1, count + 1)), Fraction(0))
    squares = sum((q2 ** (count - j) for j in range(1, count + 1)), Fraction(0))
    crossed = sum((q ** (k - j - 1) * q2 ** (count - k) for k in range(2, count + 1) for j in range(1, k)), Fraction(0))
    assert decay_sums(loss, loss2, count) == pytest.approx((float(plain), float(squares), float(crossed)), rel=1e-12)


@settings(max_examples=150, deadline=None)
@given(exponent=st.floats(-14, -0.001), ratio=st.floats(1.01, 2.0), count=st.integers(1, 10**12))
def test_sums_of_any_length_in_closed_form(exponent, ratio, count):
    loss = 10.0**exponent
    loss2 = min(loss * ratio, 1.0)
    with mpmath.workdps(100):
        l, l2, n = mpmath.mpf(loss), mpmath.mpf(loss2), mpmath.mpf(count)
        q, q2 = 1 - l, 1 - l2
        plain, squares = (1 - q**n) / l, (1 - q2**n) / l2
        crossed = (squares - (q**n - q2**n) / (q - q2)) / l
        expected = (float(plain), float(squares), float(crossed))
    assert decay_sums(loss, loss2, count) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000, 10**12])
def test_without_loss_the_sums_count(count):
    assert decay_sums(0.0, 0.0, count) == pytest.approx((count, count, count * (count - 1) / 2), rel=1e-13)


@pytest.mark.parametrize("count", [1, 2, 10**9])
def test_with_full_loss_only_the_last_example_counts(count):
    assert decay_sums(1.0, 1.0, count) == (1.0, 1.0, 1.0 if count > 1 else 0.0)


@settings(max_examples=150, deadline=None)
@given(loss=st.floats(0, 1), share=st.floats(0, 1), count=st.integers(0, 24))
def test_the_variance_of_the_retained_sum_in_fractions(loss, share, count):
    """``T_N = 1 + K_N T_(N-1)``, its first two moments followed one token at a time, without rounding."""
    q, variance = 1 - Fraction(loss), Fraction(share) * Fraction(loss) * (1 - Fraction(loss))
    q2 = q * q + variance
    mean, square = Fraction(0), Fraction(0)
    for _ in range(count):
        mean, square = 1 + q * mean, 1 + 2 * q * mean + q2 * square
    found = retained_variance(loss, float(1 - q2), float(variance), count)
    assert found == pytest.approx(float(square - mean * mean), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("count", [10, 1000, 10**6])
def test_the_variance_of_a_sum_that_hardly_forgets_keeps_its_digits(count):
    # First order in the variance v of K at loss l << 1/N: v sum_(k<N) k^2.
    loss, variance = 1e-13, 1e-14
    exact = variance * sum(k * k for k in range(count)) if count <= 1000 else variance * count**3 / 3
    found = retained_variance(loss, 2 * loss - variance, variance, count)
    assert found == pytest.approx(exact, rel=1e-5)
