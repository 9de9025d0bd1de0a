"""Three ways in which a token reads the tokens before it: gated linear, linear and softmax attention.

Arguments are the same for all: ``context (B, N, D)``, ``readers (B, R, D)``, and ``after (R,)``: reader r sees the
first ``after[r]`` context tokens and nothing else (``None``: all of them). Readers never see one another.
Shapes: B prompts, N examples, R readers, D = d + 1 size of a token, m size of the state.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from iclab.models.attention import Attention
from iclab.models.gate_weights import log_weights, log_weights_behind


class TokenMixer(nn.Module):
    """Linear attention: a reader q gives each value before it the weight ``p_i' W_B' W_C q``. A sum, not a mean.

    Args:
        size: D.
        state_size: m; rows of ``W_B`` and ``W_C``.
        start: the first entries of the diagonals of both at the start, ``channels`` of them; all else is zero.
        channels: d, the coordinates of an input.
    """

    def __init__(self, size: int, state_size: int, start: float, channels: int, dtype: torch.dtype) -> None:
        super().__init__()
        diagonal = torch.zeros(state_size, size, dtype=dtype)
        filled = min(state_size, channels)
        diagonal.diagonal()[:filled] = start
        self.W_B = nn.Parameter(diagonal)
        self.W_C = nn.Parameter(diagonal.clone())

    def raw_scores(self, context: Tensor, readers: Tensor) -> Tensor:
        """``(B, R, N)``: ``p_i' W_B' W_C q``. The reader is mapped back first, so no key is ever formed."""
        return ((readers @ self.W_C.T) @ self.W_B) @ context.transpose(1, 2)

    def attend(self, context: Tensor, readers: Tensor, after: Tensor | None) -> Attention:
        """What each reader makes of each context token, as one layer."""
        scores = self.raw_scores(context, readers)
        return ungated(scores if after is None else scores * seen(context, after))


class GatedTokenMixer(TokenMixer):
    """The same with Mamba's gates: ``G_i = sigmoid(w'p_i) prod_{i<j} (1 - sigmoid(w'p_j)) (1 - sigmoid(w'q))``.

    ``w`` is filled by the caller.
    """

    def __init__(self, size: int, state_size: int, start: float, channels: int, dtype: torch.dtype) -> None:
        super().__init__(size, state_size, start, channels, dtype)
        self.w = nn.Parameter(torch.zeros(size, dtype=dtype))

    def log_gates(self, context: Tensor, readers: Tensor, after: Tensor | None) -> Tensor:
        """``(B, R, N)``: ``log G_i``."""
        gate = context @ self.w
        own = logsigmoid(-(readers @ self.w))[..., None]
        if after is None:
            return own + log_weights(logsigmoid(gate), logsigmoid(-gate))[:, None]
        return own + log_weights_behind(logsigmoid(gate), logsigmoid(-gate), after)

    def attend(self, context: Tensor, readers: Tensor, after: Tensor | None) -> Attention:
        return Attention(self.raw_scores(context, readers)[None], self.log_gates(context, readers, after)[None])


class SoftmaxTokenMixer(TokenMixer):
    """Softmax attention: the weights are ``softmax_i(p_i' W_B' W_C q)``; zero where there is nothing to read."""

    def attend(self, context: Tensor, readers: Tensor, after: Tensor | None) -> Attention:
        scores = self.raw_scores(context, readers)
        if after is None:
            return ungated(scores.softmax(-1))
        there = seen(context, after)
        # The lowest finite number, so that a reader without any token gets zeros and not NaN.
        return ungated(scores.masked_fill(~there, torch.finfo(scores.dtype).min).softmax(-1) * there)


def ungated(scores: Tensor) -> Attention:
    """Attention ``(B, R, N)`` of one layer without a gate."""
    return Attention(scores[None], scores.new_zeros(()).expand(1, *scores.shape))


def seen(context: Tensor, after: Tensor) -> Tensor:
    """``(R, N)``: whether a reader sees a token."""
    return torch.arange(context.shape[1], device=context.device) < after[:, None]


KINDS: dict[str, type[TokenMixer]] = {"gated": GatedTokenMixer, "linear": TokenMixer, "softmax": SoftmaxTokenMixer}
MIXERS = tuple(KINDS)
