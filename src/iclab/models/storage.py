"""Models on disk: ``model.safetensors`` for the weights, ``model.json`` for what they are. No pickle."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from iclab import __version__
from iclab.errors import InputError
from iclab.files import write_atomic
from iclab.models.attention.one_layer import GatedLinearAttention, SoftmaxAttention
from iclab.models.attention.stack import AttentionStack
from iclab.models.attention.token_model import TokenModel
from iclab.models.backbones.gpt2 import GPT2
from iclab.models.backbones.linear_attention import LinearAttention
from iclab.models.backbones.mamba import Mamba
from iclab.models.in_context import InContextModel
from iclab.models.one_layer.model import OneLayerMamba
from iclab.models.sharing import find_sharing, share

FORMAT = 3
_READABLE = (2, FORMAT)  # 2 has no record of what is shared
BACKBONES = {kind.__name__: kind for kind in (Mamba, GPT2, LinearAttention)}
TYPED = {kind.__name__: kind for kind in (OneLayerMamba, GatedLinearAttention, SoftmaxAttention, AttentionStack)}
"""Models that are built in a dtype."""
_WEIGHTS, _DESCRIPTION = "model.safetensors", "model.json"
_KINDS = (*TYPED, InContextModel.__name__, *BACKBONES)


def save_model(
    model: OneLayerMamba | TokenModel | InContextModel | Mamba | GPT2 | LinearAttention, folder: Path | str
) -> Path:
    """Write ``model`` to ``folder``, which is made if need be; a model already there is replaced.

    Weights have the names and shapes of Hugging Face transformers (inside an `InContextModel` behind ``backbone.``).
    Shared ones (tied parameters, a module used twice, views of one memory) are in the file under each of their names,
    and `load_model` shares them again. The description carries a checksum of itself and of the weights and is written
    last, so a half-written or edited model is noticed.

    Args:
        model: of one of the kinds that this package defines.
        folder: where it is written.

    Returns:
        The folder.

    Raises:
        InputError: where ``folder`` cannot be made, or cannot be written to; for a model that `load_model` would not
            know, settings of a backbone that JSON cannot hold, and tensors of different dtypes in the same memory.
    """
    folder = Path(folder)
    kind = type(model).__name__
    if kind not in _KINDS:
        raise InputError(f"a {kind} cannot be saved; expected one of {', '.join(_KINDS)} (or its state_dict)")
    # Copies: safetensors refuses tensors that share memory, as tied weights do.
    weights = save({name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()})
    description: dict[str, object] = {
        "format": FORMAT,
        "model": kind,
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "settings": model.settings(),
        "shared": find_sharing(model),
        "iclab": __version__,
    }
    try:
        description["checksum"] = _checksum(description, weights)
    except TypeError as error:
        raise InputError(f"the settings of {kind} cannot be saved: {error}; return plain numbers and text") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / _WEIGHTS, weights)
        write_atomic(folder / _DESCRIPTION, json.dumps(description, indent=1).encode())
    except OSError as error:
        raise InputError(f"the model cannot be saved to {folder}: {_reason(error)}; give another folder") from None
    return folder


def _checksum(description: dict[str, object], weights: bytes) -> str:
    """Of every entry but the checksum, in canonical JSON, and of the weights."""
    rest = {key: value for key, value in description.items() if key != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode() + b"\0" + weights, digest_size=16).hexdigest()


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def load_model(folder: Path | str, *, backbone: nn.Module | None = None) -> Any:
    """Load the model that `save_model` wrote, of the kind that it was.

    Args:
        folder: the folder of the model.
        backbone: for an `InContextModel` with a backbone of your own: one built as it was; its weights are replaced.

    Raises:
        InputError: for a folder that holds none, a truncated or edited one, another kind of model, a backbone that is
            needed and missing, or a format that this version does not know.
    """
    folder = Path(folder)
    try:
        description = json.loads((folder / _DESCRIPTION).read_text())
        weights = (folder / _WEIGHTS).read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"{folder} holds no saved model: {Path(error.filename).name} is missing") from None
    except OSError as error:
        raise InputError(
            f"{folder} cannot be read as a saved model: {_reason(error)}; expected the folder that save_model wrote"
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise InputError(f"{folder / _DESCRIPTION} is damaged (no JSON); save the model again") from None
    if not isinstance(description, dict) or description.get("model") not in _KINDS:
        raise InputError(f"{folder / _DESCRIPTION} does not describe one of {', '.join(_KINDS)}; check the folder")
    if description.get("format") not in _READABLE:
        raise InputError(
            f"{folder} has the format {description.get('format')!r} and this version reads "
            f"{' and '.join(map(str, _READABLE))}; "
            f"use iclab {description.get('iclab')}, which saved it"
        )
    if description.get("checksum") != _checksum(description, weights):
        raise InputError(
            f"{_WEIGHTS} or {_DESCRIPTION} in {folder} was truncated or changed after it was saved; "
            "save the model again"
        )
    try:
        model = _build(description, backbone)
        shared = description.get("shared", find_sharing(model))
        model.load_state_dict(load(weights), assign=True)
        share(model, shared)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{folder} does not fit its description: {' '.join(str(error).split())[:200]}") from None
    return model


def _build(description: dict[str, Any], backbone: nn.Module | None) -> nn.Module:
    """A model as described, with any weights; torch's generator is left as it was."""
    kind, settings = description["model"], description["settings"]
    dtype = getattr(torch, description["dtype"])
    with torch.random.fork_rng(devices=[]):
        if kind in TYPED:
            return TYPED[kind](**settings, dtype=dtype)
        if kind != InContextModel.__name__:
            return BACKBONES[kind](**settings).to(dtype)
        inner = settings["backbone"]
        if backbone is None:
            if inner["model"] not in BACKBONES:
                raise InputError(
                    f"the saved model has a backbone of your own, {inner['model']}; pass "
                    f"load_model(folder, backbone={inner['model']}(...))"
                )
            backbone = BACKBONES[inner["model"]](**inner["settings"])
        return InContextModel(settings["input_dim"], backbone, layout=settings["layout"]).to(dtype)
