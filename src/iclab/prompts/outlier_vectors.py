"""The vectors that outliers add to their inputs: random orthogonal ones, and combinations of given ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.prompts.stream import Stream
from iclab.prompts.values import real_tensor

Coefficients = Sequence[Sequence[float]]


def random_orthogonal(dim: int, count: int, stream: Stream) -> Tensor:
    """``(count, d)`` float64: orthogonal rows of length 1, uniform among such.

    They are the columns of Q in the QR decomposition of a Gaussian matrix, signed so that R has a positive diagonal.
    """
    gaussian = torch.randn(dim, count, generator=stream.at(0), dtype=torch.float64)
    orthogonal, triangular = torch.linalg.qr(gaussian)
    return (orthogonal * torch.sign(torch.diagonal(triangular))).T


def combined(coefficients: Coefficients | None, patterns: Tensor) -> Tensor:
    """``(K, d)``: K combinations of the ``(V, d)`` patterns, or the patterns themselves.

    Raises:
        InputError: for what is no list of vectors of V finite numbers.
    """
    if coefficients is None:
        return patterns
    wanted = f"expected a list of vectors of length {len(patterns)}, one entry for each outlier pattern"
    rows = list(coefficients) if isinstance(coefficients, Iterable) else []
    if not rows:
        raise InputError(f"coefficients are {coefficients!r}; {wanted}")
    for number, row in enumerate(rows):
        length = len(row) if hasattr(row, "__len__") and not isinstance(row, str) else None
        if length != len(patterns):
            found = repr(row) if length is None else f"a vector of length {length}"
            raise InputError(f"number {number} of the coefficients is {found}; {wanted}")
    return real_tensor("coefficients", rows, 2, torch.float64) @ patterns
