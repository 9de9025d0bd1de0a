"""`LeastSquares`: ordinary least squares on the prompt, of minimum norm."""

from __future__ import annotations

from collections.abc import Sequence

from iclab.estimators.linear import LinearEstimator


class LeastSquares(LinearEstimator):
    """``w = pinv(X) y`` at every prefix, no intercept: of all minimisers of ``|y - X w|^2`` the one of least norm.

    So it interpolates with fewer than d examples, as scikit-learn's ``LinearRegression(fit_intercept=False)`` does.
    Singular values below ``1e-12`` of the largest count as zero; one just above it may leave fewer than two digits of a
    prediction, which is an error.

    Args:
        coordinates: told the subspace: only these coordinates are used.
    """

    def __init__(self, *, coordinates: Sequence[int] | None = None) -> None:
        super().__init__(coordinates)

    @property
    def name(self) -> str:
        return self.label("least squares")

    def penalty_for(self, dim: int) -> float:
        return 0.0
