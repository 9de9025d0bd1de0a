"""`Zero`: the prediction that every learner must beat."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from iclab.estimators.estimator import Estimator


class Zero(Estimator):
    """Predicts 0 everywhere; its squared error is the second moment of the labels."""

    def __init__(self) -> None:
        super().__init__()

    @property
    def name(self) -> str:
        return "zero"

    def at_queries(self, examples: Tensor, labels: Tensor, queries: Tensor, counts: Sequence[int]) -> Tensor:
        return queries.new_zeros(len(counts), *queries.shape[:2])

    def at_examples(self, examples: Tensor, labels: Tensor) -> Tensor:
        return torch.zeros_like(labels)

    def prompt_bytes(self, num_examples: int, num_queries: int, dim: int) -> int:
        return 8 * (num_examples + num_queries) * dim
