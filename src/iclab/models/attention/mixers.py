"""Three ways in which a token reads the tokens before it: gated linear, linear and softmax attention.

Arguments are the same for all: ``context (B, N, D)``, ``readers (B, R, D)``, and ``after (R,)``: reader r sees the
first ``after[r]`` context tokens and nothing else (``None``: all of them). Readers never see one another.
Shapes: B prompts, N examples, R readers, D = d + 1 size of a token, m size of the state.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad

from iclab.models.attention.attention import Attention
from iclab.models.cache import Entry
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

    def cache_entry(self, values: slice) -> Entry:
        """What `read_chunk` carries: ``sum_i G_i W_B p_i v_i' (B, m, V)``, with the gates of the context alone."""
        size, width = self.W_B.shape
        return Entry((size, len(range(width)[values])), self.W_B.dtype)

    def read_chunk(
        self, context: Tensor, values: slice, readers: Tensor, after: Tensor, cache: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Readers of a chunk of the context, who see all chunks before it too.

        Args:
            context: the tokens of the chunk.
            values: coordinates ``v_i`` of a token that are read, V of them.
            readers, after: as for `attend`; ``after`` counts tokens of the chunk.
            cache: what the chunk before returned.

        Returns:
            ``(B, R, V)``, the weighted sums of values, and the cache behind the chunk.
        """
        read = self.attend(context, readers, after).weights[0] @ context[..., values]
        left, kept, gates = self._decay(context, readers, after)
        carried = (left[..., None] * (readers @ self.W_C.T)) @ cache
        written = (context @ self.W_B.T).transpose(1, 2) @ (gates[..., None] * context[..., values])
        return read + carried, kept[:, None, None] * cache + written

    def _decay(self, context: Tensor, readers: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of the cache, what is left at each reader ``(B, R)`` and behind the chunk ``(B,)``; the gates ``(B, N)``."""
        return readers.new_ones(readers.shape[:2]), readers.new_ones(len(readers)), context.new_ones(context.shape[:2])


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

    def _decay(self, context: Tensor, readers: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gate = context @ self.w
        kept = pad(logsigmoid(-gate).cumsum(1), (1, 0))
        left = logsigmoid(-(readers @ self.w)) + kept[:, after]
        return left.exp(), kept[:, -1].exp(), log_weights(logsigmoid(gate), logsigmoid(-gate)).exp()


class SoftmaxTokenMixer(TokenMixer):
    """Softmax attention: the weights are ``softmax_i(p_i' W_B' W_C q)``; zero where there is nothing to read."""

    def attend(self, context: Tensor, readers: Tensor, after: Tensor | None) -> Attention:
        scores = self.raw_scores(context, readers)
        if after is None:
            return ungated(scores.softmax(-1))
        there = seen(context, after)
        # The lowest finite number, so that a reader without any token gets zeros and not NaN.
        return ungated(scores.masked_fill(~there, torch.finfo(scores.dtype).min).softmax(-1) * there)

    def cache_entry(self, values: slice) -> Entry:
        """All tokens so far: a softmax has no state of fixed size."""
        return Entry((None, self.W_B.shape[1]), self.W_B.dtype)

    def read_chunk(
        self, context: Tensor, values: slice, readers: Tensor, after: Tensor, cache: Tensor
    ) -> tuple[Tensor, Tensor]:
        tokens = torch.cat([cache, context], 1)
        return self.attend(tokens, readers, cache.shape[1] + after).weights[0] @ tokens[..., values], tokens


def ungated(scores: Tensor) -> Attention:
    """Attention ``(B, R, N)`` of one layer without a gate."""
    return Attention(scores[None], scores.new_zeros(()).expand(1, *scores.shape))


def seen(context: Tensor, after: Tensor) -> Tensor:
    """``(R, N)``: whether a reader sees a token."""
    return torch.arange(context.shape[1], device=context.device) < after[:, None]


KINDS: dict[str, type[TokenMixer]] = {"gated": GatedTokenMixer, "linear": TokenMixer, "softmax": SoftmaxTokenMixer}
MIXERS = tuple(KINDS)
