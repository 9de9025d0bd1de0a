"""Stage II of Algorithm 1: ridge regression of the labels on the head's features, from streamed statistics."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from iclab.errors import InputError

PENALTIES = tuple(10.0**k for k in range(-10, 3))
"""Hold-out candidates for ``lambda2``, in units of the mean eigenvalue of the Gram matrix."""


MOST_LOST = 1e-2
"""Relative rounding error of a solution above which it is refused: two digits are left."""


@dataclass(frozen=True)
class GramStatistics:
    """``F'F``, ``F'y``, ``y'y`` and the number of rows: all that ridge regression and its hold-out error need.

    Attributes:
        gram: ``(M, M)``; moment: ``(M,)``; square: ``y'y``; rows: the number of examples. float64.
    """

    gram: Tensor
    moment: Tensor
    square: float
    rows: int

    @staticmethod
    def zeros(width: int) -> GramStatistics:
        """Statistics of no rows."""
        return GramStatistics(
            torch.zeros(width, width, dtype=torch.float64), torch.zeros(width, dtype=torch.float64), 0.0, 0
        )

    def add(self, features: Tensor, labels: Tensor) -> GramStatistics:
        """With rows ``features (n, M)`` and ``labels (n,)`` added."""
        f, y = features.double(), labels.double()
        return GramStatistics(
            self.gram + f.T @ f, self.moment + f.T @ y, self.square + float(y @ y), self.rows + len(y)
        )

    def __add__(self, other: GramStatistics) -> GramStatistics:
        return GramStatistics(
            self.gram + other.gram, self.moment + other.moment, self.square + other.square, self.rows + other.rows
        )

    def error(self, weights: Tensor) -> float:
        """Mean squared error of ``features @ weights`` on these rows."""
        residual = self.square - 2 * float(self.moment @ weights) + float(weights @ self.gram @ weights)
        return max(residual, 0.0) / max(self.rows, 1)


@dataclass(frozen=True)
class RidgeFit:
    """A ridge solution: ``weights (M,)``, the penalty ``lambda2`` (added to ``F'F``), the condition number of
    ``F'F + lambda2 I``, and the hold-out error of each candidate penalty (empty if it was given)."""

    weights: Tensor
    penalty: float
    condition: float
    holdout: dict[float, float]


def ridge(fit: GramStatistics, holdout: GramStatistics | None = None, penalty: float | None = None) -> RidgeFit:
    """Minimise ``|F w - y|^2 + penalty |w|^2``.

    Args:
        fit: statistics to fit on.
        holdout: statistics that choose the penalty among `PENALTIES` (times the mean eigenvalue); the solution is then
            refitted on both. Needed if ``penalty`` is ``None``. Candidates at which float64 leaves fewer than two
            digits are no candidates.
        penalty: ``lambda2``, fixed.

    Rounding moves the eigenvalues of ``F'F`` by about ``eps`` of the largest; where that is more than `MOST_LOST` of
    the smallest of ``F'F + penalty I``, the weights are noise.

    Raises:
        InputError: for no hold-out rows to choose on, a penalty that is not positive, or one that leaves fewer than two
            digits of the weights.
    """
    errors: dict[float, float] = {}
    if penalty is None:
        if holdout is None or holdout.rows == 0 or fit.rows == 0:
            raise InputError(
                "no hold-out tasks to choose lambda2 on; raise the number of Stage II tasks or give lambda2"
            )
        values, vectors = torch.linalg.eigh(fit.gram)
        projected = vectors.T @ fit.moment
        unit = float(fit.gram.diagonal().mean())
        for candidate in PENALTIES:
            if _lost(values.clamp(min=0) + candidate * unit) > MOST_LOST:
                continue
            weights = vectors @ (projected / (values.clamp(min=0) + candidate * unit))
            errors[candidate] = holdout.error(weights)
        total = fit + holdout
        penalty = min(errors, key=lambda c: errors[c]) * float(total.gram.diagonal().mean())
    else:
        if not penalty > 0:
            raise InputError(f"lambda2 is {penalty}; expected a number > 0")
        total = fit if holdout is None else fit + holdout
    values, vectors = torch.linalg.eigh(total.gram)
    shifted = values.clamp(min=0) + penalty
    if not errors and _lost(shifted) > MOST_LOST:
        least = torch.finfo(torch.float64).eps * float(values.max()) / MOST_LOST
        raise InputError(
            f"lambda2 is {penalty:g}, at which float64 leaves fewer than two digits of the weights; expected at least "
            f"{least:.2g} for these features"
        )
    weights = vectors @ ((vectors.T @ total.moment) / shifted)
    return RidgeFit(weights, float(penalty), float(shifted.max() / shifted.min()), errors)


def _lost(shifted: Tensor) -> float:
    """Relative rounding error of a solution whose matrix has these eigenvalues."""
    return float(torch.finfo(torch.float64).eps * shifted.max() / shifted.min())
