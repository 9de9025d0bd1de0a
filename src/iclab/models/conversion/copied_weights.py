"""Weights of another library's model into a module with the same names, checked first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.models.sharing import Block, Sharing, find_sharing

_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def copy_weights(target: nn.Module, weights: Mapping[str, Any], name: str) -> None:
    """Give ``target`` copies of ``weights``, each in its own dtype and on its own device.

    Args:
        target: the module; its own tensors only say which names and shapes are expected.
        weights: a tensor for each of its names.
        name: where the weights are from, as messages begin with it.

    Raises:
        InputError: for names or shapes that do not fit, and for weights that are no plain floating-point tensors, as in
            a quantised model or on the meta device. Nothing has been copied then.
    """
    for key, value in weights.items():
        if not isinstance(value, Tensor) or type(value) not in (Tensor, nn.Parameter) or value.dtype not in _DTYPES:
            found = str(value.dtype).removeprefix("torch.") if isinstance(value, Tensor) else "packed"
            raise InputError(
                f"{name} is quantised: {key} is {found} ({type(value).__name__}); expected float64, float32, bfloat16 "
                "or float16; load the model without quantisation"
            )
        if value.is_meta:
            raise InputError(f"{name} has no numbers: {key} is on the meta device; load its weights first")
    expected = {key: tuple(value.shape) for key, value in target.state_dict().items()}
    found = {key: tuple(value.shape) for key, value in weights.items()}
    for key in (*expected, *found):
        if expected.get(key) != found.get(key):
            raise InputError(
                f"the weights of {name} do not fit its configuration: {key} has shape {found.get(key, 'absent')} and "
                f"the configuration says {expected.get(key, 'absent')}; change either"
            )
    target.load_state_dict({key: value.detach().clone() for key, value in weights.items()}, assign=True)


def shared_among(module: nn.Module, names: Mapping[str, Any]) -> Sharing:
    """What the tensors of ``module`` with these names share; modules of another library are left as they are."""
    everything = find_sharing(module)
    tensors = [kept for group in everything["tensors"] if len(kept := [name for name in group if name in names]) > 1]
    blocks = []
    for block in everything["blocks"]:
        views = {name: view for name, view in block["views"].items() if name in names}
        if views:
            blocks.append(Block(size=block["size"], views=views))
    return Sharing(modules=[], tensors=tensors, blocks=blocks)
