"""Linear regression at every prefix, by blocks of examples; the common part of `LeastSquares` and `Ridge`.

What came before a block is kept as the triangular factor ``[R | u]`` of ``[X | y]``: the same least squares problem in
d rows, without squaring its condition number. Within a block, with ``w0 = R^{-1} u`` the solution so far, what is left
is Gaussian regression of the residuals ``y - X w0`` with the kernel ``x' (R'R)^{-1} x'`` and unit noise, and one
Cholesky factor gives all its prefixes (`PrefixFactor`). Total cost: ``O(N d^2)`` a prompt. Where ``R`` has no
well-conditioned inverse (fewer than d examples, repeats, a constant coordinate) each prefix is solved by singular
values instead.

Accuracy is that of an orthogonal solver such as ``numpy.linalg.lstsq``, not more: digits are lost with the condition
number itself. Measured against 60-digit arithmetic (d = 8, N = 128, label noise 0.1, no penalty, five seeds, relative
to the largest prediction): at condition number 1e6 predictions for Gaussian queries are off by 6e-11 (``lstsq``:
8e-11), at 1e9 by 6e-8 (4e-8), at 1e11 by 4e-6 (1e-5). Beyond 1e12 directions are cut off (`RANK_TOLERANCE`).
A tiny penalty keeps such directions and loses more: at 1e-14, where columns differ by rounding, up to all digits.
Predictions that keep fewer than two are refused (`_SlowBlock`).

Derived: recursive least squares (Plackett 1950) in blocks, with square-root factors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.estimators.estimator import Estimator
from iclab.estimators.prefixes import MOST_LOST, PrefixFactor

RANK_TOLERANCE = 1e-12
"""Singular values below this fraction of the largest count as zero, as those of exact repeats do after rounding."""

_MIN_BLOCK = 32
# Within these bounds the fast path keeps at least ten digits; outside, the slow path is taken.
_LEAST_INVERSE_CONDITION = 1e-4
_LARGEST_TRACE = 1e6


class LinearEstimator(Estimator):
    """Minimum-norm solution of ``min_w sum_i (y_i - <w, x_i>)^2 + penalty |w|^2`` at each prefix; no intercept."""

    @abstractmethod
    def penalty_for(self, dim: int) -> float:
        """Return the penalty, >= 0, in dimension ``dim``."""

    def at_queries(self, examples: Tensor, labels: Tensor, queries: Tensor, counts: Sequence[int]) -> Tensor:
        parts = []
        for start, block in self._blocks(examples, labels):
            wanted = [count - start for count in counts if start < count <= start + block.size]
            if wanted:
                parts.append(block.at_queries(queries, wanted))
        return torch.cat(parts)

    def at_examples(self, examples: Tensor, labels: Tensor) -> Tensor:
        return torch.cat([block.at_examples() for _, block in self._blocks(examples, labels)], 1)

    def prompt_bytes(self, num_examples: int, num_queries: int, dim: int) -> int:
        block = max(dim, _MIN_BLOCK) + 1
        return 8 * (2 * (num_examples + num_queries) * (dim + 1) + 4 * block * (2 * block + num_queries))

    def _blocks(self, examples: Tensor, labels: Tensor) -> Iterator[tuple[int, _Block]]:
        """The first example of each block, and the block."""
        batch, count, dim = examples.shape
        rows = torch.cat([examples, labels[..., None]], 2)
        penalty = self.penalty_for(dim)
        past = rows.new_zeros(batch, dim if penalty > 0 else 0, dim + 1)
        past.diagonal(dim1=1, dim2=2).fill_(penalty**0.5)
        advice = "raise the penalty" if penalty > 0 else "use Ridge"
        hint = f"{self.name}: {advice}, or leave out coordinates that others nearly determine"
        start = 0
        while start < count:
            # Two short blocks first: the slow path is needed for the first d or so examples only.
            size = dim if start < 2 * dim else max(dim, _MIN_BLOCK)
            new = rows[:, start : start + size]
            yield start, _fast_block(past, new) or _SlowBlock(past, new, start, hint)
            past = torch.linalg.qr(torch.cat([past, new], 1), mode="r").R
            start += size


@dataclass(frozen=True)
class _SlowBlock:
    """Any block: one singular value decomposition for each prefix. Rows are ``[x | y]``.

    An orthogonal solver solves exactly a problem whose columns are off by about ``eps`` of their length. To first order
    that moves ``w`` along the right singular vector ``v`` of singular value ``s`` by at most

        eps c (|residual| / s^2 + |w| / s)          c^2 = sum_j v_j^2 |column j|^2

    where rows, residual and ``s`` include the penalty's. Measured against 60-digit arithmetic (two of four columns that
    differ by 0 to 1e-9, N = 20 to 128, label noise 0.1, penalties 0 to 1e-10, two seeds) errors of predictions are
    0.001 to 0.6 times that, so a quarter of it is held against `MOST_LOST` of the largest prediction or label.

    Raises:
        InputError: where fewer than two digits of a prediction are left; ``hint`` says what to change. ``start`` counts
            the examples before the block.
    """

    past: Tensor
    new: Tensor
    start: int = 0
    hint: str = ""

    @property
    def size(self) -> int:
        return self.new.shape[1]

    def at_queries(self, queries: Tensor, counts: Sequence[int]) -> Tensor:
        """``(len(counts), B, Q)`` from the past and the first ``counts[i]`` examples of the block."""
        return torch.stack([self._predict(queries, count) for count in counts])

    def at_examples(self) -> Tensor:
        """``(B, size)``: each example of the block from everything before it."""
        examples = self.new[..., :-1]
        return torch.cat([self._predict(examples[:, k : k + 1], k) for k in range(self.size)], 1)

    def _predict(self, queries: Tensor, count: int) -> Tensor:
        rows = torch.cat([self.past, self.new[:, :count]], 1)
        if rows.shape[1] == 0:
            return rows.new_zeros(queries.shape[:2])
        inputs, labels = rows[..., :-1], rows[..., -1:]
        left, values, right = torch.linalg.svd(inputs, full_matrices=False)
        kept = values > RANK_TOLERANCE * values[:, :1]
        inverse = torch.where(kept, 1 / torch.where(kept, values, 1), 0)
        weights = right.mT @ (inverse[..., None] * (left.mT @ labels))
        predictions = (queries @ weights)[..., 0]
        lengths = (right.square() @ torch.linalg.vector_norm(inputs, dim=1).square()[..., None]).sqrt()[..., 0]
        # Products of nearly one first: inputs of size 1e-155 and their weights leave no range of floating point.
        residual = torch.linalg.vector_norm(labels - inputs @ weights, dim=1)
        moved = lengths * inverse * residual + lengths * weights.abs().amax(1)
        lost = torch.linalg.vector_norm((queries @ right.mT) * (inverse * moved)[:, None], dim=2)
        examples = max(self.start + count, 1)
        scale = torch.maximum(predictions.abs().amax(1), torch.linalg.vector_norm(labels, dim=(1, 2)) / examples**0.5)
        eps = torch.finfo(rows.dtype).eps
        if bool((eps / 4 * lost > MOST_LOST * scale[:, None]).any()):
            raise InputError(
                f"the inputs of the first {examples} examples are nearly dependent: fewer than two digits of a "
                f"prediction are left in float64; {self.hint}"
            )
        return predictions


@dataclass(frozen=True)
class _FastBlock:
    """A well-conditioned block. ``whitened (B, d, size)`` holds ``R'^{-1} x`` of its examples in columns."""

    triangle: Tensor
    target: Tensor
    whitened: Tensor
    factor: PrefixFactor

    @property
    def size(self) -> int:
        return self.whitened.shape[2]

    def at_queries(self, queries: Tensor, counts: Sequence[int]) -> Tensor:
        """``(len(counts), B, Q)`` from the past and the first ``counts[i]`` examples of the block."""
        whitened = _whiten(self.triangle, queries)
        return (whitened.mT @ self.target)[..., 0] + self.factor.at_queries(self.whitened.mT @ whitened, counts)

    def at_examples(self) -> Tensor:
        """``(B, size)``: each example of the block from everything before it."""
        return (self.whitened.mT @ self.target)[..., 0] + self.factor.at_examples()


def _fast_block(past: Tensor, new: Tensor) -> _FastBlock | None:
    """The block as a Gaussian regression of residuals, or ``None`` where some prompt's past is too ill-conditioned."""
    dim = new.shape[2] - 1
    if past.shape[1] < dim:
        return None
    triangle, target = past[:, :dim, :dim], past[:, :dim, dim:]
    values = torch.linalg.svdvals(triangle)
    if not bool((values[:, -1] > _LEAST_INVERSE_CONDITION * values[:, 0]).all()):
        return None
    whitened = _whiten(triangle, new[..., :-1])
    if not bool(((whitened * whitened).sum((1, 2)) < _LARGEST_TRACE).all()):
        return None
    residuals = new[..., -1] - (whitened.mT @ target)[..., 0]
    covariance = whitened.mT @ whitened
    covariance.diagonal(dim1=-2, dim2=-1).add_(1)
    factor = PrefixFactor.of(covariance, residuals, hint="rescale the inputs")
    return _FastBlock(triangle, target, whitened, factor)


def _whiten(triangle: Tensor, inputs: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(triangle.mT, inputs.mT, upper=False)


_Block = _FastBlock | _SlowBlock
