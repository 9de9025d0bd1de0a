"""Models on disk: ``model.safetensors`` for the weights, ``model.json`` for what they are. No pickle."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from iclab import __version__
from iclab.errors import InputError
from iclab.files import write_atomic
from iclab.models.one_layer import OneLayerMamba

FORMAT = 2
_WEIGHTS, _DESCRIPTION = "model.safetensors", "model.json"


def save_model(model: OneLayerMamba, folder: Path | str) -> Path:
    """Write ``model`` to ``folder``, which is made if need be; a model already there is replaced.

    The description carries a checksum of itself and of the weights and is written last, so a half-written or edited
    model is noticed.

    Raises:
        InputError: where ``folder`` cannot be made, or cannot be written to.
    """
    folder = Path(folder)
    weights = save({name: tensor.contiguous() for name, tensor in model.state_dict().items()})
    description: dict[str, object] = {
        "format": FORMAT,
        "model": type(model).__name__,
        "dtype": str(model.gamma.dtype).removeprefix("torch."),
        "settings": model.settings(),
        "iclab": __version__,
    }
    description["checksum"] = _checksum(description, weights)
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


def load_model(folder: Path | str) -> OneLayerMamba:
    """The model that `save_model` wrote.

    Raises:
        InputError: for a folder that holds none, a truncated or edited one, another kind of model, or a format that
            this version does not know.
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
    if not isinstance(description, dict) or description.get("model") != OneLayerMamba.__name__:
        raise InputError(f"{folder / _DESCRIPTION} does not describe a {OneLayerMamba.__name__}; check the folder")
    if description.get("format") != FORMAT:
        raise InputError(
            f"{folder} has the format {description.get('format')!r} and this version reads {FORMAT}; "
            f"use iclab {description.get('iclab')}, which saved it"
        )
    if description.get("checksum") != _checksum(description, weights):
        raise InputError(
            f"{_WEIGHTS} or {_DESCRIPTION} in {folder} was truncated or changed after it was saved; "
            "save the model again"
        )
    try:
        model = OneLayerMamba(**description["settings"], dtype=getattr(torch, description["dtype"]))
        model.load_state_dict(load(weights))
    except (KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{folder} does not fit its description: {' '.join(str(error).split())[:200]}") from None
    return model
