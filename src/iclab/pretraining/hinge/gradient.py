"""Gradients of the hinge loss ``max(0, 1 - zF)`` of one-layer attention, written out (derived from arXiv 2510.00399).

With ``a_i = p_i' W_B' W_C p_q`` all of these models have ``F`` a function of ``a``, and with ``c_i = dLoss/da_i``

    dW_B = sum c_i (W_C q) p_i'          dW_C = sum c_i (W_B p_i) q'

Linear attention has ``dF/da_i = G_i y_i``, softmax attention ``dF/da_i = softmax_i (y_i - F)``. With ``e_i = c_i a_i``
and ``s_i = sigmoid(w'p_i)`` the gates' gradient is

    dw = sum_i [e_i (1 - s_i) - s_i sum_{j<i} e_j] p_i - sigmoid(w'q) (sum_j e_j) q

Shapes: B prompts, N examples, Q queries, D = d + 1 size of a token.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from iclab.models import GatedLinearAttention, SoftmaxAttention
from iclab.models.attention.mixers import GatedTokenMixer
from iclab.prompts import Prompts

ANALYTIC = (GatedLinearAttention, SoftmaxAttention)
"""Models whose gradients are here; those of others come from autograd."""


@torch.no_grad()
def hinge_gradient(
    model: GatedLinearAttention | SoftmaxAttention, prompts: Prompts
) -> tuple[Tensor, dict[nn.Parameter, Tensor]]:
    """Compute the outputs and the gradient of the mean hinge loss over prompts and queries.

    The slope at the kink ``zF = 1`` is taken as zero.

    Args:
        model: of one layer.
        prompts: with labels z of the queries.

    Returns:
        ``F (B, Q)``, and the gradient in each parameter.

    Raises:
        InputError: for prompts of another dimension.

    Reference: derived from arXiv 2510.00399; the formulas stand at the top of this module.
    """
    context, queries = model.tokens(prompts)
    labels, mixer = context[..., -1], model.mixer
    asked = queries @ mixer.W_C.T
    scores = (asked @ mixer.W_B) @ context.transpose(1, 2)
    if isinstance(model, SoftmaxAttention):
        weights = scores.softmax(-1)
        outputs = (weights @ labels[..., None])[..., 0]
        effects = weights * (labels[:, None] - outputs[..., None])
    else:
        effects = labels[:, None].expand_as(scores)
        if isinstance(mixer, GatedTokenMixer):
            effects = effects * mixer.log_gates(context, queries, None).exp_()
        outputs = (effects * scores).sum(-1)
    z = prompts.query_labels.to(outputs)
    slopes = (z * outputs < 1) * z / -z.numel()
    coefficients = effects * slopes[..., None]
    read = coefficients @ context
    gradients: dict[nn.Parameter, Tensor] = {
        mixer.W_B: asked.flatten(0, 1).T @ read.flatten(0, 1),
        mixer.W_C: (read @ mixer.W_B.T).flatten(0, 1).T @ queries.flatten(0, 1),
    }
    if isinstance(mixer, GatedTokenMixer):
        shares = coefficients * scores
        total, share = shares.sum(-1), shares.sum(1)
        share = share - torch.sigmoid(context @ mixer.w) * share.cumsum(-1)
        own = total * torch.sigmoid(queries @ mixer.w)
        gradients[mixer.w] = share.flatten() @ context.flatten(0, 1) - own.flatten() @ queries.flatten(0, 1)
    return outputs, gradients
