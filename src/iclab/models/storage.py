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

FORMAT = 1
_WEIGHTS, _DESCRIPTION = "model.safetensors", "model.json"


def save_model(model: OneLayerMamba, folder: Path | str) -> Path:
    """Write ``model`` to ``folder``, which is made if need be; a model already there is replaced.

    The description carries a checksum of the weights and is written last, so a half-written model is noticed.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = save({name: tensor.contiguous() for name, tensor in model.state_dict().items()})
    description = {
        "format": FORMAT,
        "model": type(model).__name__,
        "dtype": str(model.gamma.dtype).removeprefix("torch."),
        "settings": model.settings(),
        "checksum": blake2b(weights, digest_size=16).hexdigest(),
        "iclab": __version__,
    }
    write_atomic(folder / _WEIGHTS, weights)
    write_atomic(folder / _DESCRIPTION, json.dumps(description, indent=1).encode())
    return folder


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
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise InputError(f"{folder / _DESCRIPTION} is damaged (no JSON); save the model again") from None
    if not isinstance(description, dict) or description.get("model") != OneLayerMamba.__name__:
        raise InputError(f"{folder / _DESCRIPTION} does not describe a {OneLayerMamba.__name__}; check the folder")
    if description.get("format") != FORMAT:
        raise InputError(
            f"{folder} has the format {description.get('format')!r} and this version reads {FORMAT}; update iclab"
        )
    if description.get("checksum") != blake2b(weights, digest_size=16).hexdigest():
        raise InputError(f"{folder / _WEIGHTS} was truncated or changed after it was saved; save the model again")
    try:
        model = OneLayerMamba(**description["settings"], dtype=getattr(torch, description["dtype"]))
        model.load_state_dict(load(weights))
    except (KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{folder} does not fit its description: {' '.join(str(error).split())[:200]}") from None
    return model
