"""Prompts with some coordinates of their inputs set to zero."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from iclab.prompts.batch import Prompts
from iclab.prompts.distribution import PromptDistribution


class ActiveInputs(PromptDistribution):
    """The prompts of another distribution with some coordinates of the inputs set to zero.

    Args:
        inner: the other; its labels must not depend on those coordinates.
        active: the coordinates that stay.
    """

    def __init__(self, inner: PromptDistribution, active: tuple[int, ...]) -> None:
        self.inner, self.active, self.ambient_dim = inner, active, inner.ambient_dim
        self._hidden = torch.tensor(sorted(set(range(inner.ambient_dim)) - set(active)), dtype=torch.int64)

    def draw_chunks(
        self,
        generators: Sequence[torch.Generator],
        num_examples: int,
        num_queries: int,
        dtype: torch.dtype,
        buffer: Tensor | None = None,
    ) -> Prompts:
        drawn = self.inner.draw_chunks(generators, num_examples, num_queries, dtype, buffer)
        drawn.inputs.index_fill_(2, self._hidden, 0.0)
        return drawn
