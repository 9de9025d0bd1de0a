"""One checkpoint: a safetensors file that holds tensors and, as JSON in its header, what they are. No pickle.

Tensors are named ``model/<name>`` (weights and buffers), ``average/<name>``, ``optimiser/<key>/<name>``, and those that
the trainer adds. The description carries a checksum of itself and of every tensor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from iclab import __version__
from iclab.errors import InputError

FORMAT = 1
_KEY = "iclab"


@dataclass(frozen=True)
class Checkpoint:
    """Tensors on the CPU, and a description that JSON can hold."""

    tensors: Mapping[str, Tensor]
    description: Mapping[str, Any]

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors ``name/...``, without that prefix."""
        prefix = f"{name}/"
        return {key.removeprefix(prefix): value for key, value in self.tensors.items() if key.startswith(prefix)}

    def to_bytes(self) -> bytes:
        """The file; equal checkpoints have equal bytes."""
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in self.tensors.items()}
        description = {"format": FORMAT, "iclab": __version__, **self.description}
        description["checksum"] = _checksum(description, tensors)
        return save(tensors, {_KEY: _canonical(description)})

    @staticmethod
    def from_bytes(data: bytes, name: str) -> Checkpoint:
        """What `to_bytes` wrote; ``name`` is for messages.

        Raises:
            InputError: for a truncated or edited file, one that is no checkpoint, and another format.
        """
        try:
            tensors = load(data)
            text = _header(data)[_KEY]
            description = json.loads(text)
            stored = description["format"]
        except (SafetensorError, ValueError, KeyError, TypeError):
            raise InputError(
                f"{name} is truncated or no checkpoint of iclab; delete it to go on from another"
            ) from None
        if stored != FORMAT:
            raise InputError(
                f"{name} has the format {stored!r} and this version reads {FORMAT}; use iclab "
                f"{description.get('iclab')}, which wrote it"
            )
        if description.get("checksum") != _checksum(description, tensors):
            raise InputError(f"{name} was changed after it was written; delete it to go on from another")
        return Checkpoint(tensors, {key: value for key, value in description.items() if key != "checksum"})


def _canonical(description: Mapping[str, Any]) -> str:
    return json.dumps(description, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _header(data: bytes) -> dict[str, str]:
    """The text entries of a safetensors file: eight bytes of length, then JSON (``load`` does not give them)."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length])["__metadata__"]


def _checksum(description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    rest = {key: value for key, value in description.items() if key != "checksum"}
    digest = blake2b(_canonical(rest).encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
