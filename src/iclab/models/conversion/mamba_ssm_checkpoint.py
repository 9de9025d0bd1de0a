"""Checkpoints of Mamba's authors (package ``mamba_ssm``): a folder with ``config.json`` and safetensors weights.

Reference: https://github.com/state-spaces/mamba, ``MambaLMHeadModel.save_pretrained``, whose names are those of
transformers behind ``backbone.``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from iclab.errors import InputError
from iclab.models.backbones.mamba import Mamba
from iclab.models.conversion.copied_weights import copy_weights

_CONFIG, _PICKLE, _PREFIX = "config.json", "pytorch_model.bin", "backbone."
_NO_LAYERS = ("backbone.embedding.weight", "lm_head.weight")  # tokens to vectors and back, which ours leaves out
_READ = ("d_model", "n_layer", "ssm_cfg", "rms_norm", "residual_in_fp32", "norm_epsilon")
_WITHOUT_EFFECT = (
    "vocab_size",
    "pad_vocab_size_multiple",
    "tie_embeddings",
    "fused_add_norm",
    "attn_cfg",
    "initializer_cfg",
    "architectures",
    "torch_dtype",
    "dtype",
    "transformers_version",
)
_ONLY = {"rms_norm": True, "d_intermediate": 0, "attn_layer_idx": []}
_SSM_READ = {"d_state": 16, "d_conv": 4, "expand": 2, "dt_rank": "auto", "conv_bias": True, "bias": False}
_SSM_WITHOUT_EFFECT = ("dt_init", "dt_scale", "use_fast_path")
_SSM_INITIAL = {"dt_min": 1e-3, "dt_max": 0.1, "dt_init_floor": 1e-4}
_SSM_ONLY = {"layer": "Mamba1"}
_CONVERT = (
    'python -c "import torch, safetensors.torch as s; s.save_file({k: v.clone() for k, v in '
    "torch.load('pytorch_model.bin', weights_only=True).items()}, 'model.safetensors')\""
)


def load_mamba_ssm(folder: Path | str) -> Mamba:
    """Load the layers of a checkpoint of Mamba's authors, such as ``state-spaces/mamba-130m``, as a backbone.

    The table of token embeddings and the head stay in the file, as our backbones read vectors. Every weight keeps its
    dtype. ``pytorch_model.bin`` is a pickle and is not opened; the message says how to turn it into safetensors.

    Args:
        folder: holds ``config.json`` and one or more ``*.safetensors``.

    Raises:
        InputError: for a folder without these, damaged files, and settings or weights of another model: LayerNorm in
            place of RMS norm, attention layers, networks between the layers, Mamba-2.
    """
    folder = Path(folder)
    config = _config(folder)
    try:
        with torch.random.fork_rng(devices=[]):
            backbone = _backbone(config)
    except InputError as error:
        raise InputError(f"{folder / _CONFIG} cannot be converted: {error}") from None
    weights = {name.removeprefix(_PREFIX): value for name, value in _weights(folder).items() if name not in _NO_LAYERS}
    copy_weights(backbone, weights, f"the checkpoint {folder}")
    return backbone


def _config(folder: Path) -> dict[str, Any]:
    path = folder / _CONFIG
    try:
        config = json.loads(path.read_text())
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {(error.strerror or str(error)).lower()}; expected a checkpoint of mamba_ssm"
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise InputError(f"{path} is damaged (no JSON); copy the checkpoint again") from None
    if isinstance(config, dict) and "hidden_size" in config:
        raise InputError(
            f"{path} is of transformers; load it with its MambaModel.from_pretrained and convert it with "
            "from_transformers"
        )
    if not isinstance(config, dict) or not {"d_model", "n_layer"} <= config.keys():
        raise InputError(f"{path} does not describe a Mamba; expected d_model, n_layer, ssm_cfg")
    return config


def _backbone(config: Mapping[str, Any]) -> Mamba:
    """A model as described, with any weights."""
    given = config.get("ssm_cfg") or {}
    if not isinstance(given, dict):
        raise InputError(f"ssm_cfg is {given!r}; expected settings of a layer by name")
    _check("", config, (*_READ, *_WITHOUT_EFFECT), _ONLY)
    _check("ssm_cfg.", given, (*_SSM_READ, *_SSM_INITIAL, *_SSM_WITHOUT_EFFECT), _SSM_ONLY)
    ssm: dict[str, Any] = {**_SSM_READ, **_SSM_INITIAL, **given}
    width, expand = config["d_model"], ssm["expand"]
    for name, value in (("d_model", width), ("ssm_cfg.expand", expand)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise InputError(f"{name} is {value!r}; expected a number > 0")
    whole = isinstance(expand, int)
    return Mamba(
        width,
        config["n_layer"],
        state_size=ssm["d_state"],
        expand=expand if whole else 2,
        channels=None if whole else int(expand * width),
        conv_width=ssm["d_conv"],
        dt_rank=None if ssm["dt_rank"] == "auto" else ssm["dt_rank"],
        dt_min=ssm["dt_min"],
        dt_max=ssm["dt_max"],
        dt_floor=ssm["dt_init_floor"],
        norm_eps=config.get("norm_epsilon", 1e-5),
        bias=ssm["bias"],
        conv_bias=ssm["conv_bias"],
        residual_in_fp32=config.get("residual_in_fp32", True),
    )


def _check(prefix: str, found: Mapping[str, Any], known: Collection[str], only: Mapping[str, Any]) -> None:
    """Raise `InputError` for a setting that would change the function in a way that ours cannot follow."""
    for name, value in found.items():
        if name in only and value != only[name]:
            raise InputError(f"{prefix}{name} is {value!r}; only {only[name]!r} can be converted")
        if name not in known and name not in only:
            raise InputError(f"{prefix}{name} is no setting of mamba_ssm that is known here; take it out if it is idle")


def _weights(folder: Path) -> dict[str, Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        if (folder / _PICKLE).exists():
            raise InputError(
                f"{folder} has its weights as {_PICKLE}, a pickle, which is not opened here; in that folder run "
                f"{_CONVERT}"
            )
        raise InputError(f"{folder} holds no weights; expected model.safetensors beside {_CONFIG}")
    weights: dict[str, Tensor] = {}
    for file in files:
        try:
            part = load(file.read_bytes())
        except OSError as error:
            raise InputError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}") from None
        except SafetensorError as error:
            raise InputError(f"{file} is damaged: {str(error)[:200]}; copy the checkpoint again") from None
        if twice := weights.keys() & part.keys():
            raise InputError(f"{folder} has {min(twice)} in two files; keep the files of one checkpoint there")
        weights |= part
    return weights
