"""One block of GPT-2: causal softmax attention and a two-layer network, each on the normalised residual stream.

Parameter names and shapes are those of Hugging Face transformers, whose projections hold their weight as ``(in, out)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from iclab.models.backbones.activations import ACTIVATIONS
from iclab.models.backbones.rotary import Rotation, rotate

INITIAL_STD = 0.02


class Projection(nn.Module):
    """``x W + b`` with ``W (in, out)``, drawn from ``N(0, std^2)``."""

    def __init__(self, inputs: int, outputs: int, std: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs).normal_(std=std))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """``(..., in) -> (..., out)``."""
        return F.linear(x, self.weight.T, self.bias)


class Attention(nn.Module):
    """Softmax attention. Shapes: B prompts, L tokens, H heads of size h, width M = H h.

    ``scale`` multiplies the products of queries and keys; ``None`` is ``1/sqrt(h)``.
    """

    def __init__(self, width: int, heads: int, std: float, residual_std: float, scale: float | None = None) -> None:
        super().__init__()
        self.heads, self.scale = heads, scale
        self.c_attn = Projection(width, 3 * width, std)
        self.c_proj = Projection(width, width, residual_std)

    def forward(
        self, x: Tensor, turn: Rotation | None, before: Sequence[Tensor] | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens ``(B, T, M)`` -> output, and the keys and values ``(B, H, L + T, h)`` of all tokens so far.

        Args:
            x: the tokens.
            turn: angles of rotary positions.
            before: keys and values ``(B, H, L, h)`` of the tokens before.
            mask: ``(T, L + T)``, what each token sees; ``None``: causal with L = 0, all with T = 1.
        """
        query, key, value = self._heads(x, turn)
        if before is not None:
            key, value = (torch.cat([old, new], 2) for old, new in zip(before, (key, value), strict=True))
        attended = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None and key.shape[2] == x.shape[1], scale=self.scale
        )
        return self._join(attended), key, value

    def _heads(self, x: Tensor, turn: Rotation | None) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = self.c_attn(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if turn is None:
            return query, key, value
        return rotate(query, turn).to(value.dtype), rotate(key, turn).to(value.dtype), value

    def _join(self, attended: Tensor) -> Tensor:
        return self.c_proj(attended.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """``W2 a(W1 x)`` with ``a`` one of `iclab.models.backbones.activations`."""

    def __init__(self, width: int, inner_width: int, activation: str, std: float, residual_std: float) -> None:
        super().__init__()
        self.activation = activation
        self.c_fc = Projection(width, inner_width, std)
        self.c_proj = Projection(inner_width, width, residual_std)

    def forward(self, x: Tensor) -> Tensor:
        """``(..., M) -> (..., M)``."""
        return self.c_proj(ACTIVATIONS[self.activation](self.c_fc(x)))


class Block(nn.Module):
    """``x + attention(norm x)``, then ``x + network(norm x)``."""

    def __init__(
        self,
        width: int,
        heads: int,
        depth: int,
        norm_eps: float,
        std: float,
        inner_width: int,
        activation: str,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        residual_std = std / math.sqrt(2 * depth)
        self.ln_1 = nn.LayerNorm(width, eps=norm_eps)
        self.attn = Attention(width, heads, std, residual_std, scale)
        self.ln_2 = nn.LayerNorm(width, eps=norm_eps)
        self.mlp = FeedForward(width, inner_width, activation, std, residual_std)

    def forward(
        self, x: Tensor, turn: Rotation | None, before: Sequence[Tensor] | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `Attention.forward`."""
        attended, keys, values = self.attn(self.ln_1(x), turn, before, mask)
        x = x + attended
        return x + self.mlp(self.ln_2(x)), keys, values
