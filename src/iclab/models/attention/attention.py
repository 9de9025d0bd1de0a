"""`Attention`: what a model looked at, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Attention:
    """How each query read each example. Layer l contributes ``sum_i scores_i gates_i value_i`` to the query's output.

    Attributes:
        scores: ``(layers, B, Q, N)``, the attention of a query on an example: ``p_i' W_B' W_C p_q`` for linear
            attention, the weights of the softmax (they sum to one) for softmax attention. The gate is not in it.
        log_gates: ``(layers, B, Q, N)``, logs of what the gates leave of an example, the query's own gate included;
            zero where there is no gate.
    """

    scores: Tensor
    log_gates: Tensor

    @property
    def gates(self) -> Tensor:
        """``(layers, B, Q, N)``: ``G_i``, ones where there is no gate."""
        return self.log_gates.exp()

    @property
    def weights(self) -> Tensor:
        """``(layers, B, Q, N)``: attention times gate, what an example's value counts."""
        return self.scores * self.gates

    def queries(self, start: int) -> Attention:
        """Return the attention of the readers number ``start`` and later alone."""
        return Attention(self.scores[:, :, start:], self.log_gates[:, :, start:])

    @staticmethod
    def stack(layers: Sequence[Attention]) -> Attention:
        """Join along the layers."""
        if len(layers) == 1:
            return layers[0]
        return Attention(torch.cat([a.scores for a in layers]), torch.cat([a.log_gates for a in layers]))
