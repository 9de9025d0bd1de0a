"""Configurations of Hugging Face transformers to our settings and back, for every setting that changes the function.

Not read, as they change no function of given weights: initial values (``initializer_range``, ``time_step_scale``,
``time_step_init_scheme``, ``rescale_prenorm_residual``), the vocabulary and its head, caches, kernels
(``use_mambapy``, ``use_associative_scan``), rounding (``reorder_and_upcast_attn``: attention here has a float32 softmax
always), and dropout, which ours has not.
"""

from __future__ import annotations

import importlib
from typing import Any

from iclab.errors import InputError
from iclab.models.backbones.gpt2 import GPT2
from iclab.models.backbones.mamba import Mamba


def package() -> Any:
    """The module ``transformers``.

    Raises:
        InputError: where it is not installed.
    """
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError:
        raise InputError("transformers is not installed; install it with pip install transformers") from None


def mamba_like(config: Any) -> Mamba:
    """A `Mamba` of the function that a ``MambaConfig`` or a ``FalconMambaConfig`` describes, with any weights."""
    multiple, rest = divmod(config.intermediate_size, config.hidden_size)
    return Mamba(
        config.hidden_size,
        config.num_hidden_layers,
        state_size=config.state_size,
        expand=multiple if rest == 0 else config.expand,
        channels=config.intermediate_size if rest else None,
        conv_width=config.conv_kernel,
        dt_rank=int(config.time_step_rank),
        dt_min=config.time_step_min,
        dt_max=config.time_step_max,
        dt_floor=config.time_step_floor,
        norm_eps=config.layer_norm_epsilon,
        bias=config.use_bias,
        conv_bias=config.use_conv_bias,
        activation=config.hidden_act,
        mixer_norm_eps=config.mixer_rms_eps if config.model_type == "falcon_mamba" else None,
        residual_in_fp32=config.residual_in_fp32,
    )


def gpt2_like(config: Any) -> GPT2:
    """A `GPT2` of the function that a ``GPT2Config`` describes, with any weights.

    Raises:
        InputError: for cross-attention.
    """
    if config.add_cross_attention:
        raise InputError("add_cross_attention is True and ours reads one sequence alone; expected False")
    return GPT2(
        config.n_embd,
        config.n_layer,
        heads=config.n_head,
        max_positions=config.n_positions,
        norm_eps=config.layer_norm_epsilon,
        inner_width=config.n_inner,
        activation=config.activation_function,
        scale_attention=config.scale_attn_weights,
        scale_attention_by_layer=config.scale_attn_by_inverse_layer_idx,
    )


def mamba_module(backbone: Mamba) -> Any:
    """A ``MambaModel``, or a ``FalconMambaModel`` where B, C and the time step are normed, with any weights."""
    transformers, mixer = package(), backbone.mixer
    settings: dict[str, Any] = {
        "vocab_size": 1,
        "hidden_size": backbone.width,
        "num_hidden_layers": backbone.depth,
        "state_size": mixer.state_size,
        "expand": mixer.expand,
        "intermediate_size": mixer.num_channels(backbone.width),
        "conv_kernel": mixer.conv_width,
        "time_step_rank": mixer.dt_rank,
        "time_step_min": mixer.dt_min,
        "time_step_max": mixer.dt_max,
        "time_step_floor": mixer.dt_floor,
        "layer_norm_epsilon": backbone.norm_eps,
        "use_bias": mixer.bias,
        "use_conv_bias": mixer.conv_bias,
        "hidden_act": mixer.activation,
        "residual_in_fp32": mixer.residual_in_fp32,
        "rescale_prenorm_residual": True,  # as our initial values are
    }
    if mixer.mixer_norm_eps is None:
        return transformers.MambaModel(transformers.MambaConfig(**settings))
    falcon = transformers.FalconMambaConfig(**settings, mixer_rms_eps=mixer.mixer_norm_eps)
    return transformers.FalconMambaModel(falcon)


def gpt2_module(backbone: GPT2) -> Any:
    """A ``GPT2Model`` without dropout, with any weights."""
    transformers = package()
    config = transformers.GPT2Config(
        vocab_size=1,
        bos_token_id=0,
        eos_token_id=0,
        n_embd=backbone.width,
        n_layer=backbone.depth,
        n_head=backbone.heads,
        n_positions=backbone.max_positions,
        n_inner=backbone.inner_width,
        activation_function=backbone.activation,
        scale_attn_weights=backbone.scale_attention,
        scale_attn_by_inverse_layer_idx=backbone.scale_attention_by_layer,
        layer_norm_epsilon=backbone.norm_eps,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return transformers.GPT2Model(config)
