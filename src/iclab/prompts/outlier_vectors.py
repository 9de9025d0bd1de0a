"""The vectors that outliers add to their inputs: random orthogonal ones, and combinations of given ones."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.prompts.arguments import described, entries, own_matrix
from iclab.prompts.stream import Stream

Coefficients = Iterable[Iterable[float]]
Rows = tuple[tuple[float, ...], ...]


def random_orthogonal(dim: int, count: int, stream: Stream) -> Tensor:
    """``(count, d)`` float64: orthogonal rows of length 1, uniform among such.

    They are the columns of Q in the QR decomposition of a Gaussian matrix, signed so that R has a positive diagonal.
    """
    gaussian = torch.randn(dim, count, generator=stream.at(0), dtype=torch.float64)
    orthogonal, triangular = torch.linalg.qr(gaussian)
    return (orthogonal * torch.sign(torch.diagonal(triangular))).T


def coefficient_rows(coefficients: Coefficients | None, count: int) -> Rows | None:
    """A user's coefficients, K vectors of ``count`` numbers, as they can be kept; ``None`` stays.

    Raises:
        InputError: for what is no list of vectors of ``count`` finite numbers.
    """
    if coefficients is None:
        return None
    wanted = f"expected a list of vectors of length {count}, one entry for each outlier pattern"
    rows = entries(coefficients)
    if not rows:
        raise InputError(f"coefficients are {described(coefficients)}; {wanted}")
    numbers = []
    for index, row in enumerate(rows):
        vector = entries(row)
        if vector is None or len(vector) != count:
            found = described(row) if vector is None else f"a vector of length {len(vector)}"
            raise InputError(f"number {index} of the coefficients is {found}; {wanted}")
        numbers.append(vector)
    return tuple(map(tuple, own_matrix("coefficients", numbers).tolist()))


def smallest(rows: Tensor) -> float:
    """The smallest length of the rows that are not zero, by their largest entry; 0 without any."""
    lengths = rows.abs().amax(1)
    lengths = lengths[lengths > 0]
    return float(lengths.min()) if len(lengths) else 0.0


def combined(rows: Rows | None, patterns: Tensor) -> Tensor:
    """``(K, d)``: K combinations of the ``(V, d)`` patterns, of `coefficient_rows`; or the patterns themselves."""
    return patterns if rows is None else torch.tensor(rows, dtype=torch.float64) @ patterns
