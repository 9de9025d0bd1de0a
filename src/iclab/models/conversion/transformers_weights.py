"""Weights to and from Hugging Face transformers, which computes the same functions (and is no dependency of ours).

Names and shapes are equal, so weights are copied, each in its dtype. Token embeddings have no counterpart here, as our
backbones read vectors (theirs do so through ``inputs_embeds``).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from iclab.errors import InputError
from iclab.models.backbones.gpt2 import GPT2
from iclab.models.backbones.mamba import Mamba
from iclab.models.conversion.copied_weights import copy_weights, shared_among
from iclab.models.conversion.transformers_settings import gpt2_like, gpt2_module, mamba_like, mamba_module
from iclab.models.sharing import share

_LIKE = {"mamba": mamba_like, "falcon_mamba": mamba_like, "gpt2": gpt2_like}
_EMBEDDINGS = ("embeddings.weight", "wte.weight")


def from_transformers(module: Any) -> Mamba | GPT2:
    """Copy the weights of a ``MambaModel``, ``FalconMambaModel`` or ``GPT2Model`` into our backbone.

    A model with a head on one of these gives the backbone under it. Dtypes, devices and shared weights are those of
    ``module``. Dropout is left out: ours has none. docs/models.md lists all settings.

    Raises:
        InputError: for another module (Mamba-2 among them, which is another operator), a setting that ours does not
            have, weights that do not fit the configuration, and quantised or missing weights.
    """
    config = getattr(module, "config", None)
    kind = getattr(config, "model_type", None)
    name = f"the {type(module).__name__}"
    if kind == "mamba2":
        raise InputError(f"{name} is of Mamba-2, which is another operator; expected Mamba, FalconMamba or GPT-2")
    if config is None or kind not in _LIKE:
        raise InputError(
            f"a {type(module).__name__} cannot be converted; expected a MambaModel, FalconMambaModel or GPT2Model of "
            "transformers"
        )
    try:
        with torch.random.fork_rng(devices=[]):
            ours = _LIKE[kind](config)
    except InputError as error:
        raise InputError(f"the configuration of {name} cannot be converted: {error}") from None
    trunk = module.base_model
    weights = {key: value for key, value in trunk.state_dict().items() if key not in _EMBEDDINGS}
    copy_weights(ours, weights, name)
    share(ours, shared_among(trunk, weights))
    return ours


def to_transformers(backbone: nn.Module) -> Any:
    """Copy the weights into a ``MambaModel``, ``FalconMambaModel`` or ``GPT2Model``, in evaluation mode.

    Dtypes, devices and shared weights are those of ``backbone``. Feed it ``inputs_embeds``: its vocabulary has one
    word. GPT-2 without positions gets a table of zeros.

    Raises:
        InputError: where transformers is not installed or has no such model (constant time steps, rotary positions,
            other backbones).
    """
    with torch.random.fork_rng(devices=[]):
        if isinstance(backbone, Mamba) and backbone.mixer.selectivity == "full":
            theirs, table = mamba_module(backbone), "embeddings.weight"
        elif isinstance(backbone, GPT2) and backbone.positions != "rotary":
            theirs, table = gpt2_module(backbone), "wte.weight"
        else:
            name = getattr(backbone, "name", type(backbone).__name__)
            raise InputError(
                f"transformers has no model like {name}; expected a Mamba, or a GPT2 without rotary positions"
            )
    first = next(backbone.parameters())
    weights = dict(backbone.state_dict())
    weights[table] = theirs.get_parameter(table).to(first)
    if isinstance(backbone, GPT2) and backbone.positions == "none":
        weights["wpe.weight"] = torch.zeros_like(theirs.wpe.weight).to(first)
    copy_weights(theirs, weights, "the backbone")
    share(theirs, shared_among(backbone, weights))
    theirs.config.dtype = first.dtype
    return theirs.to(first.device).eval()
