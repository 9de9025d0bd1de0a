"""Whether a stored training is the one that is asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.prompts import PromptDistribution, Stream

_EXAMPLES = 4


def describe_model(model: nn.Module) -> dict[str, object]:
    """The class, and ``settings()`` where the model has it.

    Raises:
        InputError: for settings that JSON cannot hold.
    """
    describe = getattr(model, "settings", None)
    settings = describe() if callable(describe) else {}
    try:
        settings = json.loads(json.dumps(settings, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"settings() of {type(model).__name__} cannot be written down ({error}); expected numbers, texts, lists "
            "and dictionaries"
        ) from None
    return {"class": type(model).__name__, "settings": settings}


def draw_sample(prompts: PromptDistribution, stream: Stream) -> dict[str, Tensor]:
    """A few prompts by which a law of any family is known again: a changed link, support or noise changes them."""
    chunk = prompts.draw_chunk(stream.child("identity").at(0), _EXAMPLES, 1, torch.float32)
    return {"inputs": chunk.inputs, "labels": chunk.labels}


def law_digest(prompts: PromptDistribution, stream: Stream) -> str:
    """Hexadecimal hash of the numbers of that sample."""
    content = hashlib.blake2b(digest_size=8)
    for tensor in draw_sample(prompts, stream).values():
        content.update(tensor.contiguous().numpy().tobytes())
    return content.hexdigest()


def check_same(
    name: str,
    stored: Mapping[str, Any],
    asked: Mapping[str, Any],
    stored_sample: Mapping[str, Tensor],
    sample: Mapping[str, Tensor],
) -> None:
    """Raise `InputError` with the keys in which the training in the checkpoint ``name`` and the one asked for differ.

    More steps of a constant schedule are no difference: the steps already taken would be the same.
    """
    there, here = dict(stored["settings"]), dict(asked["settings"])
    if here["schedule"] == "constant" and here["steps"] >= stored["step"]:
        there["steps"] = here["steps"]
    check_model(name, stored, asked["model"])
    different = _differences(there, here)
    if not different and not _alike(stored_sample, sample):
        different = ["its law of prompts draws other prompts"]
    if different:
        raise InputError(f"{name} is of another training: {_first(different)}; choose another folder")


def check_parts(name: str, stored: Mapping[str, Any], parts: int) -> None:
    """Raise `InputError` where a model that draws random numbers (dropout) was trained in other parts of a batch."""
    there = stored.get("parts", parts)
    if there != parts:
        raise InputError(
            f"{name} is of a model with dropout, trained with accumulate times processes = {there}, and here that is "
            f"{parts}: it would draw other numbers; keep {there}, or choose another folder"
        )


def check_model(name: str, stored: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """Raise `InputError` with what differs between the model of the checkpoint ``name`` and this one."""
    different = _differences(stored["model"], model)
    if different:
        raise InputError(f"{name} is of another model: {_first(different)}; build the model as it was")


def check_weights(name: str, model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Raise `InputError` unless ``weights`` have the names and shapes of the model's."""
    own = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    stored = {key: tuple(value.shape) for key, value in weights.items()}
    for key in sorted(own.keys() | stored.keys()):
        if own.get(key) != stored.get(key):
            raise InputError(
                f"{name} is of another model: {key} has shape {stored.get(key, 'absent')} there and "
                f"{own.get(key, 'absent')} here; build the model as it was"
            )


def _alike(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    """Equal up to what another processor's rounding changes."""
    return first.keys() == second.keys() and all(
        first[key].shape == second[key].shape
        and torch.allclose(first[key], second[key], rtol=1e-3, atol=1e-3, equal_nan=True)
        for key in first
    )


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    there, here = _flat(there), _flat(here)
    return [
        f"{key} is {there.get(key, 'absent')} there and {here.get(key, 'absent')} here"
        for key in {**there, **here}
        if there.get(key) != here.get(key)
    ]


def _first(different: list[str]) -> str:
    return ", ".join(different[:3]) + (f", and {len(different) - 3} more" if len(different) > 3 else "")


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
