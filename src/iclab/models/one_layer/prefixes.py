"""All N prefixes of a prompt through the one-layer model in one pass, chunk by chunk.

Between chunks the state is carried (d x d a prompt); inside a chunk of C positions the states are one product of a
C x C matrix of weights with the outer products of the chunk. Cost O(N C d^2), memory O(C d^2) a prompt.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from iclab.models.one_layer.label_gate import LabelGate
from iclab.models.one_layer.state_blocks import StateBlocks

_CHUNK = 16


class Carry(NamedTuple):
    """What examples leave to those after them: ``sum_j G_j y_j`` of 1, ``x_j`` and ``x_j x_j'``, and their number.

    Attributes:
        zeroth: ``(B,)``; 0 for the identity embedding, which does not need it.
        first: ``(B, d)``.
        second: ``(B, d d)``; empty for the identity embedding.
        count: ``(B,)``.
    """

    zeroth: Tensor
    first: Tensor
    second: Tensor
    count: Tensor

    def at_query(self, gate: LabelGate) -> StateBlocks:
        """The state ``S`` that a query behind these examples reads."""
        unit = math.exp(gate.log_query()) / self.count.clamp(min=1)
        d = self.first.shape[1]
        if self.second.shape[1]:
            centred = self.second.unflatten(1, (d, d)) - torch.diag_embed(self.zeroth[:, None].expand(-1, d))
            second = centred * (2**-0.5 * unit)[:, None, None]
        else:
            second = self.second.new_zeros(len(unit), 0, 0)
        return StateBlocks(self.zeroth * unit, self.first * unit[:, None], second)


def read_prefixes(
    gate: LabelGate, gamma: tuple[Tensor, Tensor, Tensor], x: Tensor, labels: Tensor, carry: Carry | None = None
) -> tuple[Tensor, Carry]:
    """``(B, N)``: ``M/N`` at the input of example k, with all examples before it as context (0 where there is none).

    And the carry behind the N examples.

    Args:
        gate: of the model.
        gamma: its blocks of degree 0, 1 and 2; the last is empty for the identity embedding.
        x: ``(B, N, d)``.
        labels: ``(B, N)``.
        carry: what examples before these have left.
    """
    batch, length, d = x.shape
    gain = torch.exp(gate.log_gain(labels)) * labels
    log_keep = gate.log_keep(labels)
    gamma0, gamma1, gamma2 = gamma
    full = gamma2.numel() > 0
    if carry is None:
        none = x.new_zeros(batch)
        carry = Carry(none, x.new_zeros(batch, d), x.new_zeros(batch, d * d if full else 0), none)
    zeroth, first, second, seen = carry
    values = []
    for start in range(0, length, _CHUNK):
        piece = x[:, start : start + _CHUNK]
        size = piece.shape[1]
        weights, carried = _chunk_weights(gain[:, start : start + size], log_keep[:, start : start + size])
        firsts = carried[..., None] * first[:, None] + weights @ piece
        value = torch.einsum("bcd,d,bcd->bc", firsts[:, :size], gamma1, piece)
        first = firsts[:, size]
        if full:
            outer = (piece[..., :, None] * piece[..., None, :]).flatten(2)
            zeroths = carried * zeroth[:, None] + weights.sum(-1)
            seconds = carried[..., None] * second[:, None] + weights @ outer
            pairs = torch.einsum("bcp,p,bcp->bc", seconds[:, :size], gamma2.flatten(), outer)
            # <Gamma * (P - s I), (x x' - I)>/2, expanded so that no identity is ever subtracted from a state.
            own = torch.einsum(
                "bcp,p->bc", seconds[:, :size].unflatten(2, (d, d)).diagonal(dim1=2, dim2=3), gamma2.diagonal()
            )
            squares = torch.einsum("bcd,d->bc", piece * piece, gamma2.diagonal())
            zero = zeroths[:, :size]
            value = value + gamma0 * zero + 0.5 * (pairs - own - zero * (squares - gamma2.diagonal().sum()))
            zeroth, second = zeroths[:, size], seconds[:, size]
        counts = seen[:, None] + torch.arange(start, start + size, device=x.device)
        values.append(value / counts.clamp(min=1))
    carry = Carry(zeroth, first, second, seen + length)
    if not values:
        return x.new_zeros(batch, 0), carry
    return torch.cat(values, 1) * math.exp(gate.log_query()), carry


def _chunk_weights(gain: Tensor, log_keep: Tensor) -> tuple[Tensor, Tensor]:
    """Weights ``(B, C+1, C)`` of example j in the state before position n, and ``(B, C+1)`` what is left of the carry.

    The exponent ``sum_{j<k<n} log_keep_k`` is summed directly for every pair, never as a difference of prefix sums:
    one huge label would drown the small terms of all pairs after it.
    """
    size = gain.shape[1]
    positions = torch.arange(size + 1, device=gain.device)
    earlier = positions[:size]
    between = (earlier[None, :, None] > earlier[None, None, :]) & (earlier[None, :, None] < positions[:, None, None])
    exponents = torch.einsum("nkj,bk->bnj", between.to(gain.dtype), log_keep)
    before = (earlier[None, :] < positions[:, None]).to(gain.dtype)
    weights = torch.exp(exponents) * before * gain[:, None, :]
    return weights, torch.exp(torch.einsum("nk,bk->bn", before, log_keep))
