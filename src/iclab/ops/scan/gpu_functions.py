"""The functions of the scan's Triton kernels, number by number; needs the package ``triton``.

``PRECISE`` is whether numbers are float64. A comparison with NaN is false, so NaN takes the way of ``tl.where`` that
computes, and comes out; ``tl.maximum`` would lose it.
"""

from __future__ import annotations

import triton  # pyrefly: ignore[missing-import]
import triton.language as tl  # pyrefly: ignore[missing-import]


@triton.jit
def decay(step, rate, PRECISE: tl.constexpr):
    """``exp(step rate)``, 0 below the normal numbers."""
    exponent = step * (rate * 1.4426950408889634)
    return tl.where(exponent < (-1022 if PRECISE else -126), 0.0, tl.exp2(exponent))


@triton.jit
def hold_gain(step, rate, e, PRECISE: tl.constexpr):
    """``(exp(x) - 1)/rate`` with ``x = step rate`` and ``e = exp(x)``; near 0 ``step sum_k x^k/(k + 1)!``."""
    exponent = step * rate
    small = tl.abs(exponent) < 0.35
    x = tl.where(small, exponent, 0.0)
    series = x * 0.0 + 1.0
    for k in tl.static_range(14 if PRECISE else 8, 1, -1):
        series = series * x * (1.0 / k) + 1.0
    return tl.where(small, step * series, (e - 1.0) / rate)


@triton.jit
def hold_curve(step, rate, e, gain, PRECISE: tl.constexpr):
    """Derivative of `hold_gain` by ``rate``: ``step^2 sum_k x^k (k + 1)/(k + 2)!`` near 0."""
    exponent = step * rate
    small = tl.abs(exponent) < 0.35
    x = tl.where(small, exponent, 0.0)
    series = x * 0.0 + 1.0
    for k in tl.static_range(15 if PRECISE else 8, 0, -1):
        series = series * x * ((k + 1.0) / (k * (k + 2.0))) + 1.0
    return tl.where(small, step * step * series * 0.5, (step * e - gain) / rate)


@triton.jit
def exp_negative(x, PRECISE: tl.constexpr):
    """``exp(x)`` for ``x <= 0``, 0 below the normal numbers.

    In float32 the device multiplies ``x`` by ``log2(e)`` first, and ``|x|`` would multiply the rounding of that.
    """
    if PRECISE:
        lowest = -708.3964185322641
        result = tl.exp(tl.where(x < lowest, 0.0, x))
    else:
        lowest = -87.33654475055310
        inside = tl.where(x < lowest, 0.0, x)
        k = tl.floor(inside * 1.4426950408889634 + 0.5)
        rest = (inside - k * 0.693145751953125) - k * 1.4286068203094172e-6
        result = tl.exp2(k) * tl.exp2(rest * 1.4426950408889634)
    return tl.where(x < lowest, 0.0, result)


@triton.jit
def sigmoid(x, PRECISE: tl.constexpr):
    """``1/(1 + exp(-x))``, of full relative accuracy on both sides."""
    t = exp_negative(-tl.abs(x), PRECISE)
    return tl.where(x < 0.0, t, 1.0) / (t + 1.0)


@triton.jit
def softplus(x, PRECISE: tl.constexpr):
    """``log(1 + exp(x)) = max(x, 0) + 2 artanh(t/(2 + t))`` with ``t = exp(-|x|)``, of full relative accuracy."""
    t = exp_negative(-tl.abs(x), PRECISE)
    s = t / (t + 2.0)
    square = s * s
    series = square * 0.0
    for k in tl.static_range(16 if PRECISE else 7, 0, -1):
        series = (series + 1.0 / (2 * k + 1)) * square
    return tl.where(x < 0.0, 0.0, x) + 2.0 * (s * series + s)


@triton.jit
def step_size(raw, SOFTPLUS: tl.constexpr, PRECISE: tl.constexpr):
    """``delta`` from its raw input."""
    if SOFTPLUS:
        step = softplus(raw, PRECISE)
    else:
        step = raw
    return step


@triton.jit
def step_slope(raw, SOFTPLUS: tl.constexpr, PRECISE: tl.constexpr):
    """Derivative of `step_size`."""
    if SOFTPLUS:
        slope = sigmoid(raw, PRECISE)
    else:
        slope = raw * 0.0 + 1.0
    return slope
