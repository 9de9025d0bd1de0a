"""The one-layer model as a state space layer, token by token: slow, obvious, the reference for the fast forms.

An S6 layer with ``A = -I`` and ``Delta = softplus(u)``. Exact zero-order hold gives ``Abar = exp(-Delta)`` and
``Bbar = (1 - exp(-Delta)) B``. With ``u = y/rho + b`` that is decay ``1 - sigmoid(u)`` and gain ``sigmoid(u)``.
(The shortcut ``Bbar = Delta B`` of the stock kernels gives another gain.)
"""

from __future__ import annotations

import torch
from torch import Tensor

from iclab.models.one_layer.embedding import embed
from iclab.models.one_layer.model import OneLayerMamba
from iclab.prompts import Prompts


@torch.no_grad()
def recurrent_read(model: OneLayerMamba, prompts: Prompts) -> Tensor:
    """Compute ``M/N`` by stepping through the tokens; it equals ``model.read(features, queries)``.

    Args:
        model: whose gate and ``gamma`` are used.
        prompts: B prompts with Q queries.

    Returns:
        ``(B, Q)``, in units of ``s(0)``.
    """
    gate = model.label_gate
    labels = model._labels(prompts)
    tokens = embed(prompts.examples.to(model.gamma), model.embedding)
    queries = embed(prompts.queries.to(model.gamma), model.embedding)
    state = tokens.new_zeros(prompts.batch_size, tokens.shape[-1])
    unit = _gain(gate.gate, torch.zeros((), dtype=labels.dtype), gate.rho, gate.b)
    for j in range(prompts.num_examples):
        y = labels[:, j, None]
        keep = torch.exp(-_softplus(y / gate.rho + gate.b)) if gate.gate == "mamba" else 1.0
        # W_B' W_C = diag(gamma): the input matrix carries gamma, the output matrix is the identity.
        state = keep * state + _gain(gate.gate, y, gate.rho, gate.b) / unit * y * (model.gamma * tokens[:, j])
    keep = torch.exp(-_softplus(torch.tensor(gate.b, dtype=state.dtype))) if gate.gate == "mamba" else 1.0
    return torch.einsum("bqp,bp->bq", queries, keep * state) / max(prompts.num_examples, 1)


def _softplus(u: Tensor) -> Tensor:
    """``log(1 + exp(u))`` exactly; ``torch.nn.functional.softplus`` cuts off at u = 20, an error of 2e-9."""
    return torch.logaddexp(u, torch.zeros_like(u))


def _gain(gate: str, y: Tensor, rho: float, b: float) -> Tensor:
    u = y / rho + b
    match gate:
        case "mamba" | "no_decay":
            return -torch.expm1(-_softplus(u))
        case "exp":
            return torch.exp(u)
        case _:
            return torch.ones_like(u)
