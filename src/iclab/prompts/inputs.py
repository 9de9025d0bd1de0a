"""Distributions of the inputs ``x``: unit variance in every coordinate, independent unless a covariance is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.prompts.values import check_held

INPUT_DISTRIBUTIONS = ("gaussian", "rademacher", "uniform", "student_t")


@dataclass(frozen=True)
class InputDistribution:
    """A distribution of i.i.d. coordinates with mean 0 and variance 1, mixed by an optional covariance.

    Attributes:
        kind: ``gaussian``, ``rademacher`` (+-1), ``uniform`` on ``[-sqrt 3, sqrt 3]``, or ``student_t``.
        df: degrees of freedom of ``student_t``, finite and above 2.
        covariance: ``(d, d)`` symmetric positive definite, or ``None`` for the identity.
    """

    kind: str = "gaussian"
    df: float = 5.0
    covariance: Sequence[Sequence[float]] | np.ndarray | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in INPUT_DISTRIBUTIONS:
            hint = ""
            if not isinstance(self.kind, str):
                hint = " (a covariance is given as InputDistribution(covariance=...))"
            raise InputError(
                f"the input distribution is {_short(self.kind)}; expected one of {', '.join(INPUT_DISTRIBUTIONS)}{hint}"
            )
        if isinstance(self.df, bool) or not isinstance(self.df, Real) or not 2 < self.df < float("inf"):
            raise InputError(
                f"df is {self.df!r}; expected a finite number above 2, or the variance does not exist (inf is gaussian)"
            )
        if self.covariance is not None:
            try:
                if np.iscomplexobj(self.covariance):
                    raise TypeError
                matrix = np.asarray(self.covariance, dtype=float)
            except (TypeError, ValueError):
                raise InputError("the covariance is no rectangular array of real numbers; expected (d, d)") from None
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
                raise InputError(f"the covariance has shape {matrix.shape}; expected a finite square matrix")
            if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-10) or not _is_definite(matrix):
                raise InputError("the covariance is not symmetric positive definite; expected all eigenvalues > 0")
            # A distribution is a value: it compares, and does not change with the array that it was given.
            object.__setattr__(self, "covariance", tuple(map(tuple, matrix.tolist())))

            check_held(self._sizes, torch.float64)

    @cached_property
    def _sizes(self) -> dict[str, float]:
        """The scale of each coordinate that is new given those before it."""
        scales = np.diagonal(self._factor)
        return {"the smallest scale of the covariance": scales.min(), "its largest scale": scales.max()}

    @cached_property
    def _factor(self) -> np.ndarray:
        return np.linalg.cholesky(np.asarray(self.covariance, dtype=float))

    def fill(self, out: Tensor, generator: torch.Generator) -> None:
        """Fill ``out`` in place with inputs drawn from this distribution.

        Args:
            out: of shape ``(..., d)``.
            generator: what the draws come from.

        Raises:
            InputError: where the covariance has values that the dtype of ``out`` cannot hold.
        """
        if self.covariance is not None:
            check_held(self._sizes, out.dtype)
        match self.kind:
            case "gaussian":
                out.normal_(generator=generator)
            case "rademacher":
                out.bernoulli_(0.5, generator=generator).mul_(2).sub_(1)
            case "uniform":
                out.uniform_(-(3**0.5), 3**0.5, generator=generator)
            case _:
                seeds = torch.randint(2**62, (2,), generator=generator).tolist()
                draws = np.random.Generator(np.random.PCG64DXSM(seeds)).standard_t(self.df, size=tuple(out.shape))
                out.copy_(torch.from_numpy(draws * ((self.df - 2) / self.df) ** 0.5))
        if self.covariance is not None:
            out.copy_(out @ torch.from_numpy(self._factor.T.copy()).to(out.dtype))


def _is_definite(matrix: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return bool(np.linalg.eigvalsh(matrix).min() > 0)


def _short(value: object) -> str:
    text = repr(value)
    return " ".join(text.split()) if len(text) <= 60 else f"a {type(value).__name__}"
