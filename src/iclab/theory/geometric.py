"""Sums of powers of the retention factors that appear in the moments of a gated recurrence."""

from __future__ import annotations

import math
from collections.abc import Callable

_Segment = tuple[int, float, float, float, float]


def decay_sums(loss: float, loss2: float, length: int) -> tuple[float, float, float]:
    """Three sums over ``N = length`` positions with ``q = 1 - loss`` and ``q2 = 1 - loss2``.

    Returns:
        ``sum_j q^(N-j)``, ``sum_j q2^(N-j)`` and ``sum_{j<k} q^(k-j-1) q2^(N-k)``.

    The closed forms subtract nearly equal numbers when the losses are tiny. Here segments are joined by doubling, with
    positive terms only, so every sum keeps full relative accuracy for any N in ``log2 N`` steps.
    """
    log_q = math.log1p(-loss) if loss < 1 else -math.inf
    log_q2 = math.log1p(-loss2) if loss2 < 1 else -math.inf

    def power(log_base: float, exponent: int) -> float:
        return 1.0 if exponent == 0 else math.exp(exponent * log_base)

    def join(first: _Segment, second: _Segment) -> _Segment:
        """Sums of a segment followed by another; ``mixed = sum_k q^(k-1) q2^(n-k)``."""
        n1, sum1, squares1, mixed1, crossed1 = first
        n2, sum2, squares2, mixed2, crossed2 = second
        return (
            n1 + n2,
            power(log_q, n2) * sum1 + sum2,
            power(log_q2, n2) * squares1 + squares2,
            power(log_q2, n2) * mixed1 + power(log_q, n1) * mixed2,
            power(log_q2, n2) * crossed1 + crossed2 + sum1 * mixed2,
        )

    total = _doubled(join, (0, 0.0, 0.0, 0.0, 0.0), (1, 1.0, 1.0, 1.0, 0.0), length)
    return total[1], total[2], total[4]


def retained_variance(loss: float, loss2: float, spread: float, length: int) -> float:
    """``Var sum_j prod_{k>j} K_k`` over ``N = length`` positions, for independent ``K`` with ``E K = 1 - loss``,
    ``E K^2 = 1 - loss2`` and ``Var K = spread``.

    It is ``sum_j q2^(N-j) + 2 q sum_{j<k} q^(k-j-1) q2^(N-k) - (sum_j q^(N-j))^2``, where the large terms cancel. Here
    segments are joined instead: with ``P`` the product and ``T`` the sum of a segment, the variances of both and their
    covariance have positive terms only.
    """
    log_q = math.log1p(-loss) if loss < 1 else -math.inf
    log_q2 = math.log1p(-loss2) if loss2 < 1 else -math.inf

    def power(log_base: float, exponent: int) -> float:
        return 1.0 if exponent == 0 else math.exp(exponent * log_base)

    def join(first: _Segment, second: _Segment) -> _Segment:
        """``n, E T, Var T, Cov(T, P), Var P`` of a segment followed by another: ``T = T2 + P2 T1``, ``P = P1 P2``."""
        n1, sum1, var1, mixed1, product1 = first
        n2, sum2, var2, mixed2, product2 = second
        q1, q2, squares2 = power(log_q, n1), power(log_q, n2), power(log_q2, n2)
        return (
            n1 + n2,
            q2 * sum1 + sum2,
            var2 + squares2 * var1 + sum1 * sum1 * product2 + 2 * sum1 * mixed2,
            q1 * mixed2 + squares2 * mixed1 + sum1 * q1 * product2,
            product1 * squares2 + q1 * q1 * product2,
        )

    return _doubled(join, (0, 0.0, 0.0, 0.0, 0.0), (1, 1.0, 0.0, 0.0, spread), length)[2]


def _doubled(join: Callable[[_Segment, _Segment], _Segment], empty: _Segment, one: _Segment, length: int) -> _Segment:
    """``length`` equal positions joined along the binary digits of their number."""
    total, block, remaining = empty, one, length
    while remaining:
        if remaining & 1:
            total = join(total, block)
        remaining >>= 1
        if remaining:
            block = join(block, block)
    return total
