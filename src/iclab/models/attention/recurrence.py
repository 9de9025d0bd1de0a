"""Gated linear attention as a state space model, token by token: slow, obvious, the reference for the closed form."""

from __future__ import annotations

import torch
from torch import Tensor

from iclab.models.attention.one_layer import GatedLinearAttention
from iclab.prompts import Prompts


@torch.no_grad()
def recurrent_outputs(model: GatedLinearAttention, prompts: Prompts) -> Tensor:
    """Compute the outputs of ``model`` by stepping through the tokens; they equal ``model(prompts)``.

    With ``s_i = sigmoid(w'p_i)``: ``S <- (1 - s_i) S + s_i y_i W_B p_i``, then ``F = (1 - sigmoid(w'q)) S' W_C q``.
    Without gates both factors are one. Cost O(N m d) a prompt, memory O(m).

    Args:
        model: of one layer.
        prompts: B prompts with Q queries.

    Returns:
        ``(B, Q)``.
    """
    context, queries = model.tokens(prompts)
    state = context.new_zeros(len(context), model.state_size)
    for token in context.unbind(1):
        written = token[:, -1:] * (token @ model.W_B.T)
        if model.w is None:
            state = state + written
        else:
            gate = torch.sigmoid(token @ model.w)[:, None]
            state = (1 - gate) * state + gate * written
    answers = torch.einsum("bm,bqm->bq", state, queries @ model.W_C.T)
    return answers if model.w is None else (1 - torch.sigmoid(queries @ model.w)) * answers
