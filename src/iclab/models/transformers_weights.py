"""Weights to and from Hugging Face transformers, which computes the same functions (and is no dependency of ours).

Names and shapes are equal, so weights are copied; token embeddings have no place here, as our backbones read vectors
(theirs do so through ``inputs_embeds``).
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import nn

from iclab.errors import InputError
from iclab.models.gpt2 import GPT2
from iclab.models.mamba import Mamba

# What the configuration must say for their function to be ours.
_REQUIRED = {
    "mamba": {"hidden_act": "silu", "use_bias": False, "use_conv_bias": True},
    "gpt2": {
        "activation_function": "gelu_new",
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    },
}
_EMBEDDINGS = ("embeddings.weight", "wte.weight")


def from_transformers(module: Any) -> Mamba | GPT2:
    """Our backbone with a copy of the weights of a ``MambaModel``, a ``GPT2Model`` or a model with a head on one.

    Dropout is left out: ours has none. Dtype and device are those of ``module``.

    Raises:
        InputError: for another module, or a configuration whose function ours does not compute.
    """
    config = getattr(module, "config", None)
    kind = getattr(config, "model_type", None)
    if config is None or kind not in _REQUIRED:
        raise InputError(
            f"a {type(module).__name__} cannot be converted; expected a MambaModel or a GPT2Model of transformers"
        )
    required = {**_REQUIRED[kind]}
    if kind == "gpt2" and config.n_inner is not None:
        required["n_inner"] = 4 * config.n_embd
    for key, expected in required.items():
        if getattr(config, key) != expected:
            raise InputError(f"the {kind} has {key} = {getattr(config, key)!r}; only {expected!r} can be converted")
    with torch.random.fork_rng(devices=[]):
        ours = _mamba(config) if kind == "mamba" else _gpt2(config)
    weights = {name: p.detach().clone() for name, p in module.base_model.state_dict().items()}
    for name in _EMBEDDINGS:
        weights.pop(name, None)
    ours.load_state_dict(weights, assign=True)
    return ours


def to_transformers(backbone: nn.Module) -> Any:
    """A ``MambaModel`` or ``GPT2Model`` of transformers with a copy of the weights, in evaluation mode.

    Feed it ``inputs_embeds``: its vocabulary has one word. GPT-2 without positions gets a table of zeros.

    Raises:
        InputError: where transformers is not installed or has no such model (constant time steps, rotary positions,
            other backbones).
    """
    if isinstance(backbone, Mamba) and backbone.mixer.selectivity == "full":
        config, build = _mamba_config(backbone)
    elif isinstance(backbone, GPT2) and backbone.positions != "rotary":
        config, build = _gpt2_config(backbone)
    else:
        name = getattr(backbone, "name", type(backbone).__name__)
        raise InputError(f"transformers has no model like {name}; expected a Mamba, or a GPT2 without rotary positions")
    with torch.random.fork_rng(devices=[]):
        theirs = build(config)
    weights = dict(backbone.state_dict())
    if isinstance(backbone, GPT2) and backbone.positions == "none":
        weights["wpe.weight"] = torch.zeros_like(theirs.wpe.weight)
    theirs.load_state_dict(weights, strict=False)
    first = next(backbone.parameters())
    return theirs.to(first.device, first.dtype).eval()


def _package() -> Any:
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError:
        raise InputError("transformers is not installed; install it with pip install transformers") from None


def _mamba(config: Any) -> Mamba:
    return Mamba(
        config.hidden_size,
        config.num_hidden_layers,
        state_size=config.state_size,
        expand=config.expand,
        conv_width=config.conv_kernel,
        dt_rank=int(config.time_step_rank),
        dt_min=config.time_step_min,
        dt_max=config.time_step_max,
        dt_floor=config.time_step_floor,
        norm_eps=config.layer_norm_epsilon,
    )


def _gpt2(config: Any) -> GPT2:
    return GPT2(
        config.n_embd,
        config.n_layer,
        heads=config.n_head,
        max_positions=config.n_positions,
        norm_eps=config.layer_norm_epsilon,
    )


def _mamba_config(backbone: Mamba) -> tuple[Any, Any]:
    transformers = _package()
    mixer = backbone.mixer
    config = transformers.MambaConfig(
        vocab_size=1,
        hidden_size=backbone.width,
        num_hidden_layers=backbone.depth,
        state_size=mixer.state_size,
        expand=mixer.expand,
        conv_kernel=mixer.conv_width,
        time_step_rank=mixer.dt_rank,
        time_step_min=mixer.dt_min,
        time_step_max=mixer.dt_max,
        time_step_floor=mixer.dt_floor,
        layer_norm_epsilon=backbone.norm_eps,
    )
    return config, transformers.MambaModel


def _gpt2_config(backbone: GPT2) -> tuple[Any, Any]:
    transformers = _package()
    config = transformers.GPT2Config(
        vocab_size=1,
        n_embd=backbone.width,
        n_layer=backbone.depth,
        n_head=backbone.heads,
        n_positions=backbone.max_positions,
        layer_norm_epsilon=backbone.norm_eps,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return config, transformers.GPT2Model
