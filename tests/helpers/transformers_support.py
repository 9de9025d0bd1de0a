"""Random configurations of transformers' models, and their functions without casts to float32."""

import random
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from iclab.models.backbones.activations import ACTIVATIONS


class InFloat64(TorchFunctionMode):
    """Casts to float32 become casts to float64: transformers has some inside whatever the dtype of the weights."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.float:
            return args[0].double()
        if func is Tensor.to:
            args = tuple(torch.float64 if value is torch.float32 else value for value in args)
            kwargs = {key: torch.float64 if value is torch.float32 else value for key, value in kwargs.items()}
        return func(*args, **kwargs)


def outputs(module: Any, x: Tensor) -> Tensor:
    """What a model of transformers makes of vectors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its kernels are not installed
        return module(inputs_embeds=x, use_cache=False).last_hidden_state


def scramble(module: nn.Module) -> None:
    """Weights away from the zeros and ones that hide a missing term."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, parameter.mean().item(), 0.2)


def mamba_settings(seed: int) -> dict[str, Any]:
    """Of a ``MambaConfig``, or with ``mixer_rms_eps`` of a ``FalconMambaConfig``: all that change the function."""
    draw = random.Random(seed)
    width = draw.choice([6, 10, 17, 24])
    settings: dict[str, Any] = {
        "vocab_size": 2,
        "hidden_size": width,
        "num_hidden_layers": draw.randint(1, 3),
        "state_size": draw.choice([1, 2, 5, 16]),
        "expand": draw.randint(1, 3),
        "conv_kernel": draw.randint(1, 5),
        "time_step_rank": draw.choice(["auto", 1, 4]),
        "layer_norm_epsilon": draw.choice([1e-5, 1e-3]),
        "use_bias": draw.random() < 0.5,
        "use_conv_bias": draw.random() < 0.5,
        "hidden_act": draw.choice(list(ACTIVATIONS)),
        "residual_in_fp32": draw.random() < 0.5,
    }
    if draw.random() < 0.5:
        settings["intermediate_size"] = draw.randint(1, 3 * width)
    if draw.random() < 0.5:
        settings["mixer_rms_eps"] = draw.choice([1e-6, 1e-2])
    return settings


def mamba_module(settings: dict[str, Any]) -> Any:
    """A ``MambaModel`` or ``FalconMambaModel`` with these settings."""
    transformers = pytest.importorskip("transformers")
    family = "FalconMamba" if "mixer_rms_eps" in settings else "Mamba"
    return getattr(transformers, f"{family}Model")(getattr(transformers, f"{family}Config")(**settings))


def gpt2_settings(seed: int) -> dict[str, Any]:
    """Of a ``GPT2Config``: all that change the function."""
    draw = random.Random(seed)
    heads = draw.randint(1, 3)
    return {
        "vocab_size": 2,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "n_embd": heads * draw.choice([1, 4, 7]),
        "n_layer": draw.randint(1, 3),
        "n_head": heads,
        "n_positions": draw.randint(9, 20),
        "n_inner": draw.choice([None, 1, 13]),
        "activation_function": draw.choice(list(ACTIVATIONS)),
        "layer_norm_epsilon": draw.choice([1e-5, 1e-3]),
        "scale_attn_weights": draw.random() < 0.5,
        "scale_attn_by_inverse_layer_idx": draw.random() < 0.5,
        "reorder_and_upcast_attn": draw.random() < 0.5,
        "resid_pdrop": draw.choice([0.0, 0.3]),
    }


def gpt2_module(settings: dict[str, Any]) -> Any:
    """A ``GPT2Model`` with these settings, in evaluation mode."""
    transformers = pytest.importorskip("transformers")
    return transformers.GPT2Model(transformers.GPT2Config(**settings)).eval()


FAMILIES = {"mamba": (mamba_settings, mamba_module), "gpt2": (gpt2_settings, gpt2_module)}
