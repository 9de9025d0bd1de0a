"""`NearestNeighbours`: the mean label of the closest examples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from iclab.errors import check_integer
from iclab.estimators.estimator import Estimator


class NearestNeighbours(Estimator):
    """Mean of the labels of the ``num_neighbours`` closest examples (Euclidean), of all of them if there are fewer.

    As scikit-learn's ``KNeighborsRegressor(weights="uniform")``; among equally distant examples the earlier wins, so
    that results do not depend on the length of the prompt.

    Args:
        num_neighbours: at least 1.
        coordinates: told the subspace: distances use these coordinates only.
    """

    def __init__(self, num_neighbours: int = 3, *, coordinates: Sequence[int] | None = None) -> None:
        super().__init__(coordinates)
        self.num_neighbours = check_integer("num_neighbours", num_neighbours, 1)

    @property
    def name(self) -> str:
        return self.label(f"{self.num_neighbours}-nearest neighbours")

    def at_queries(self, examples: Tensor, labels: Tensor, queries: Tensor, counts: Sequence[int]) -> Tensor:
        distances = _distances(queries, examples)
        return torch.stack([self._mean(distances[..., :count], labels[:, :count]) for count in counts])

    def at_examples(self, examples: Tensor, labels: Tensor) -> Tensor:
        count = examples.shape[1]
        distances = _distances(examples, examples)
        later = torch.ones(count, count, dtype=torch.bool, device=examples.device).triu()
        return self._mean(distances.masked_fill_(later, torch.inf), labels)

    def prompt_bytes(self, num_examples: int, num_queries: int, dim: int) -> int:
        return 8 * ((num_queries or num_examples) * num_examples * 4 + (num_examples + num_queries) * dim)

    def _mean(self, distances: Tensor, labels: Tensor) -> Tensor:
        """Mean over the nearest finite distances: ``distances (B, n, N)`` and ``labels (B, N)`` give ``(B, n)``."""
        wanted = min(self.num_neighbours, distances.shape[-1])
        radius = distances.topk(wanted, dim=-1, largest=False).values[..., -1:]
        closer = distances < radius
        level = (distances == radius) & distances.isfinite()
        missing = wanted - closer.sum(-1, keepdim=True)
        chosen = (closer | (level & (level.cumsum(-1, dtype=torch.int32) <= missing))).double()
        return (chosen @ labels[..., None])[..., 0] / chosen.sum(-1).clamp_min(1)


def _distances(left: Tensor, right: Tensor) -> Tensor:
    # Equal differences must give equal distances, which the form |x|^2 + |x'|^2 - 2<x,x'> does not ensure.
    return torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist")
