"""The loss of in-context learning: squared errors along a prompt, or at its queries."""

from __future__ import annotations

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.prompts import Prompts


def labels_of(prompts: Prompts, loss_on: str) -> Tensor:
    """``(B, N)`` for ``prefixes``, ``(B, Q)`` for ``queries``: what the loss compares with."""
    return prompts.example_labels if loss_on == "prefixes" else prompts.query_labels


def squared_errors(predictions: Tensor, prompts: Prompts, loss_on: str) -> Tensor:
    """Squared errors against the noisy labels, ``(B, N)`` or ``(B, Q)``, in float32 or the predictions' wider dtype.

    Raises:
        InputError: for predictions of another shape.
    """
    labels = labels_of(prompts, loss_on)
    if predictions.shape != labels.shape:
        raise InputError(f"the model's {loss_on} have shape {tuple(predictions.shape)}; expected {tuple(labels.shape)}")
    dtype = torch.promote_types(predictions.dtype, torch.float32)
    return (predictions.to(dtype) - labels.to(dtype)).square()
