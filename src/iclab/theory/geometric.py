"""Sums of powers of the retention factors that appear in the moments of a gated recurrence."""

from __future__ import annotations

import math


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

    def join(
        first: tuple[int, float, float, float, float], second: tuple[int, float, float, float, float]
    ) -> tuple[int, float, float, float, float]:
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

    total = (0, 0.0, 0.0, 0.0, 0.0)
    block = (1, 1.0, 1.0, 1.0, 0.0)
    remaining = length
    while remaining:
        if remaining & 1:
            total = join(total, block)
        remaining >>= 1
        if remaining:
            block = join(block, block)
    return total[1], total[2], total[4]
