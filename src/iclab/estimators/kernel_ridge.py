"""`KernelRidge`: kernel ridge regression on the prompt, every prefix from one factorisation."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from iclab.errors import check_positive
from iclab.estimators.estimator import Estimator, short_number
from iclab.estimators.kernels import Kernel, make_kernel
from iclab.estimators.prefixes import PrefixFactor


class KernelRidge(Estimator):
    """``f(x) = k(x, X) (K + penalty I)^{-1} y``, as scikit-learn's ``KernelRidge(alpha=penalty)``.

    Costs one Cholesky factorisation, ``N^3 / 3`` a prompt, for all prefixes together.

    Args:
        kernel: ``"rbf"``, ``"laplace"``, ``"polynomial"``, ``"arc_cosine"``, or a `Kernel`.
        penalty: positive, so that repeated points are no trouble. Where it is so small that float64 leaves fewer than
            two digits of the solution (about ``1e-13`` times the kernel's diagonal, for inputs that are close
            together), that is an error at prediction, never a silent jitter.
        coordinates: told the subspace: the kernel sees these coordinates only (``", intrinsic"`` in the name).
        options: of the kernel: ``bandwidth`` (rbf: default ``sqrt(d)``; laplace: default ``d``), or ``degree``,
            ``gamma``, ``coef0`` (polynomial: default 3, ``1/d``, 1); ``d`` is the dimension that the kernel sees.

    Raises:
        InputError: for a penalty that is not positive, or a kernel or option that is not known; later, where rounding
            leaves fewer than two digits (see `iclab.estimators.prefixes.PrefixFactor`).

    Example:
        >>> KernelRidge("rbf", 1e-2, bandwidth=2.8, coordinates=(0, 3)).name
        'kernel ridge, rbf(2.8), 1e-2, intrinsic'
    """

    def __init__(
        self,
        kernel: Kernel | str = "rbf",
        penalty: float = 1e-2,
        *,
        coordinates: Sequence[int] | None = None,
        **options: float | None,
    ) -> None:
        super().__init__(coordinates)
        self.kernel = make_kernel(kernel, options)
        self.penalty = check_positive("penalty", penalty)

    @property
    def name(self) -> str:
        dim = None if self.coordinates is None else len(self.coordinates)
        return self.label("kernel ridge", self.kernel.label(dim), short_number(self.penalty))

    def at_queries(self, examples: Tensor, labels: Tensor, queries: Tensor, counts: Sequence[int]) -> Tensor:
        return self._factorise(examples, labels).at_queries(self.kernel(examples, queries), counts)

    def at_examples(self, examples: Tensor, labels: Tensor) -> Tensor:
        return self._factorise(examples, labels).at_examples()

    def prompt_bytes(self, num_examples: int, num_queries: int, dim: int) -> int:
        # Kernel, its temporaries and the factor: the arc-cosine kernel needs six such arrays at its peak.
        return 8 * (num_examples * 6 * (num_examples + num_queries) + 2 * (num_examples + num_queries) * dim)

    def _factorise(self, examples: Tensor, labels: Tensor) -> PrefixFactor:
        covariance = self.kernel(examples, examples)
        covariance.diagonal(dim1=-2, dim2=-1).add_(self.penalty)
        return PrefixFactor.of(covariance, labels, hint=f"{self.name}: raise the penalty or remove repeated inputs")
