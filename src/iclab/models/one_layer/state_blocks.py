"""The state of the one-layer model, by Hermite degree. Shapes: B prompts, d ambient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class StateBlocks:
    """``S`` of each prompt, by Hermite degree, in units of ``s(0)`` (``sigmoid(b)`` for the sigmoid gates).

    Attributes:
        degree0: ``(B,)``.
        degree1: ``(B, d)``.
        degree2: ``(B, d, d)``, symmetric, ``(1/N) sum_j G_j y_j (x_j x_j' - I)/sqrt 2``: its Frobenius norm is the norm
            of the block, and its product with ``beta beta'`` the coefficient of ``h_2(<beta, x>)``.
            Empty ``(B, 0, 0)`` for the identity embedding.
    """

    degree0: Tensor
    degree1: Tensor
    degree2: Tensor

    @staticmethod
    def cat(states: Sequence[StateBlocks]) -> StateBlocks:
        """Join along the prompts."""
        if len(states) == 1:
            return states[0]
        return StateBlocks(
            torch.cat([s.degree0 for s in states]),
            torch.cat([s.degree1 for s in states]),
            torch.cat([s.degree2 for s in states]),
        )
