"""Whether a stored training is the one that is asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.pretraining.trainer.described import described
from iclab.prompts import PromptDistribution, Stream
from iclab.prompts.distribution import draw_checked
from iclab.settings.train import TrainSettings

_EXAMPLES = 4
_ROUNDING = 1e-5


def describe_model(model: nn.Module) -> dict[str, object]:
    """The class, and ``settings()`` where the model has it; otherwise its modules as ``repr`` shows them.

    Raises:
        InputError: for settings that JSON cannot hold.
    """
    describe = getattr(model, "settings", None)
    if not callable(describe):
        modules = {name: f"{type(m).__name__}({m.extra_repr()})" for name, m in model.named_modules() if name}
        return {"class": type(model).__name__, "settings": {}, "modules": modules}
    try:
        settings = json.loads(json.dumps(describe(), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"settings() of {type(model).__name__} cannot be written down ({error}); expected numbers, texts, lists "
            "and dictionaries"
        ) from None
    return {"class": type(model).__name__, "settings": settings}


def describe_settings(settings: TrainSettings, stream: Stream) -> dict[str, Any]:
    """Return the settings and the stream as JSON holds them."""
    return {"stream": json.loads(json.dumps(asdict(stream))), **settings.asdict()}


def describe_training(
    model: nn.Module, prompts: PromptDistribution, settings: TrainSettings, stream: Stream
) -> dict[str, Any]:
    """Return all that decides the numbers of a training, beside the initial weights: what a resumed one must share."""
    return {
        "model": describe_model(model),
        "frozen": [name for name, parameter in model.named_parameters() if not parameter.requires_grad],
        "settings": describe_settings(settings, stream),
        "prompts": described(prompts),
    }


def draw_sample(prompts: PromptDistribution, stream: Stream) -> dict[str, Tensor]:
    """A few prompts by which a distribution is known again where its description says too little (a user's class)."""
    chunk = draw_checked(prompts, [stream.child("identity").at(0)], _EXAMPLES, 1, torch.float32)
    return {"inputs": chunk.inputs, "labels": chunk.labels}


def distribution_digest(prompts: PromptDistribution, stream: Stream) -> str:
    """Hexadecimal hash of the distribution's description and of the numbers of that sample."""
    content = hashlib.blake2b(json.dumps(described(prompts), sort_keys=True).encode(), digest_size=8)
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

    More steps of a constant schedule are no difference: the steps already taken would be the same. A checkpoint from
    before distributions were described is known by its sample alone.
    """
    there, here = dict(stored["settings"]), dict(asked["settings"])
    if here["schedule"] == "constant" and here["steps"] >= stored["step"]:
        there["steps"] = here["steps"]
    check_model(name, stored, asked["model"])
    different = _differences(there, here)
    for key in ("prompts", "frozen"):
        if key in stored:
            different += _differences({key: stored[key]}, {key: asked[key]})
    if not different and not _alike(stored_sample, sample):
        different = ["its distribution of prompts draws other prompts"]
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
    asked = {key: value for key, value in model.items() if key != "modules" or key in stored["model"]}
    different = _differences(stored["model"], asked)
    if different:
        raise InputError(f"{name} is of another model: {_first(different)}; build the model as it was")


def check_weights(name: str, model: nn.Module, weights: Mapping[str, Tensor], dtypes: bool = False) -> None:
    """Raise `InputError` unless ``weights`` have the names and shapes of the model's, and with ``dtypes`` those too."""
    own, stored = _kinds(model.state_dict(), dtypes), _kinds(weights, dtypes)
    for key in sorted(own.keys() | stored.keys()):
        if own.get(key) != stored.get(key):
            raise InputError(
                f"{name} is of another model: {key} is {stored.get(key, 'absent')} there and "
                f"{own.get(key, 'absent')} here; build the model as it was"
            )


def check_optimised(name: str, stored: Mapping[str, Tensor], trained: Sequence[str]) -> None:
    """Raise `InputError` where the optimiser's state in the checkpoint is of a parameter that is not trained here."""
    for label in stored:
        parameter = label.partition("/")[2]
        if parameter not in trained:
            raise InputError(
                f"{name} is of another training: {parameter} was trained there and is not here; freeze what was frozen"
            )


def _kinds(tensors: Mapping[str, Tensor], dtypes: bool) -> dict[str, str]:
    kinds = {key: f"of shape {tuple(value.shape)}" for key, value in tensors.items()}
    if dtypes:
        kinds = {key: f"{kind} and {str(tensors[key].dtype).removeprefix('torch.')}" for key, kind in kinds.items()}
    return kinds


def _alike(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    """Equal up to what another processor's rounding changes: in float32 some 1e-7 of the largest number."""
    if first.keys() != second.keys() or any(first[key].shape != second[key].shape for key in first):
        return False
    return all(
        torch.allclose(
            first[key], second[key], rtol=_ROUNDING, atol=_ROUNDING * float(first[key].abs().max()), equal_nan=True
        )
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
