"""`Ridge`: linear ridge regression on the prompt, with a fixed penalty or the Bayes-optimal one."""

from __future__ import annotations

from collections.abc import Sequence

from iclab.errors import InputError, check_positive
from iclab.estimators.estimator import short_number
from iclab.estimators.linear import LinearEstimator


class Ridge(LinearEstimator):
    """``w = argmin |y - X w|^2 + penalty |w|^2``, no intercept; scikit-learn's ``Ridge(alpha, fit_intercept=False)``.

    For ``y = <w, x> + noise`` with ``w ~ N(0, signal_variance / d * I)`` the posterior mean, hence the least squared
    error, has ``penalty = d * noise_variance / signal_variance``: that is ``penalty="bayes"``, with ``d`` the dimension
    of the inputs (of the coordinates, where given). For inputs of unit variance ``signal_variance`` is the variance of
    ``<w, x>``. The noise may follow any distribution of that variance: the estimator is then the best linear one.
    Reference: Hoerl and Kennard 1970; the Bayes form is the Gaussian posterior (derived).

    Accuracy is that of an orthogonal solver on ``[X; sqrt(penalty) I]``, whose singular values below ``1e-12`` of the
    largest count as zero, as in `LeastSquares`: so does a direction that neither the inputs nor the penalty resolve.
    Where a penalty of about ``1e-13`` of ``|X|^2`` or less alone resolves a direction (nearly equal columns; repeated
    inputs, fewer than d, with other labels) and queries have a part in it, rounding leaves fewer than two digits: that
    is an error at prediction.

    Args:
        penalty: at least 0 (at 0 it is `LeastSquares`), or ``"bayes"``.
        noise_variance: at least 0; needed for ``"bayes"`` and refused without it.
        signal_variance: positive; 1 by default, refused without ``"bayes"``.
        coordinates: told the subspace: only these coordinates are used.

    Raises:
        InputError: for values out of range, or variances beside a fixed penalty; later, where rounding leaves fewer
            than two digits of a prediction.
    """

    def __init__(
        self,
        penalty: float | str = 1.0,
        *,
        noise_variance: float | None = None,
        signal_variance: float | None = None,
        coordinates: Sequence[int] | None = None,
    ) -> None:
        super().__init__(coordinates)
        self.penalty: float | None = None
        self.noise_to_signal: float | None = None
        if penalty == "bayes":
            if noise_variance is None:
                raise InputError('penalty is "bayes" without a noise_variance; give the variance of the label noise')
            signal = 1.0 if signal_variance is None else check_positive("signal_variance", signal_variance)
            self.noise_to_signal = _check_not_negative("noise_variance", noise_variance) / signal
        elif noise_variance is not None or signal_variance is not None:
            raise InputError(f'variances beside the fixed penalty {penalty!r}; use penalty="bayes" or drop them')
        else:
            self.penalty = _check_not_negative("penalty", penalty)

    @property
    def name(self) -> str:
        if self.penalty is not None:
            return self.label("ridge", short_number(self.penalty))
        return self.label("ridge", f"Bayes {short_number(self.noise_to_signal or 0.0)} d")

    def penalty_for(self, dim: int) -> float:
        return self.penalty if self.penalty is not None else dim * (self.noise_to_signal or 0.0)


def _check_not_negative(name: str, value: float | str) -> float:
    if not isinstance(value, str) and value == 0:
        return 0.0
    try:
        return check_positive(name, value)  # type: ignore[arg-type]
    except InputError:
        raise InputError(f"{name} is {value!r}; expected a finite number >= 0") from None
