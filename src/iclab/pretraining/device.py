"""Where a model is trained, in what precision, and what of the process a training leaves as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import nn

from iclab.errors import InputError, check_integer
from iclab.pretraining.trainer.distributed import local_device

DEVICES = ("cpu", "cuda", "mps")


def input_dim(model: nn.Module) -> int:
    """The dimension of the prompts that a model takes.

    Raises:
        InputError: for what is no module with an integer ``input_dim``.
    """
    if not isinstance(model, nn.Module) or not hasattr(model, "input_dim"):
        raise InputError(
            f"the model is a {type(model).__name__}; expected a torch.nn.Module with input_dim, as InContextModel has"
        )
    return check_integer("input_dim of the model", model.input_dim, 1)


def max_examples(model: nn.Module) -> int | None:
    """The longest context that a model has positions for; ``None`` where it does not say so."""
    longest = getattr(model, "max_examples", None)
    return None if longest is None else check_integer("max_examples of the model", longest, 1)


def trained_dtype(model: nn.Module) -> torch.dtype:
    """float32 or float64, whichever the model's parameters are.

    Raises:
        InputError: for another or a mixed precision, and for parameters that inference mode has made.
    """
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise InputError(
            "the model was built inside torch.inference_mode(), so its parameters take no gradient; build it outside"
        )
    found = {parameter.dtype for parameter in model.parameters() if parameter.requires_grad}
    if not found:
        raise InputError(
            f"{type(model).__name__} has no parameter that requires a gradient; expected one to train: build it with "
            "parameters, and unfreeze them with requires_grad_(True)"
        )
    if found not in ({torch.float32}, {torch.float64}):
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in found))
        raise InputError(
            f"the trained parameters have the dtypes {names}; expected float32 or float64 throughout (half precision "
            "is asked for with autocast='bfloat16')"
        )
    return found.pop()


def find_device(model: nn.Module, device: torch.device | str | None) -> torch.device:
    """The device that was asked for, or the model's.

    Raises:
        InputError: for an unknown or an absent device, and for a model that lies on several.
    """
    if device is None:
        devices = {parameter.device for parameter in model.parameters()}
        if len(devices) != 1:
            raise InputError(
                f"the model lies on the devices {', '.join(sorted(map(str, devices)))}; expected one: name it as device"
            )
        return local_device(devices.pop())
    return local_device(named_device(device))


def named_device(device: torch.device | str) -> torch.device:
    """A device by its name.

    Raises:
        InputError: for one that is unknown or absent.
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type not in DEVICES:
        raise InputError(f"device is {device!r}; expected one of {', '.join(DEVICES)}, or cuda:1")
    if found.type == "cpu" and found.index is not None:
        raise InputError(f"device is {device!r}; expected cpu, which has no number")
    missing = (found.type == "cuda" and not torch.cuda.is_available()) or (
        found.type == "mps" and not torch.backends.mps.is_available()
    )
    if missing:
        raise InputError(f"device is {device!r} and torch {torch.__version__} finds none here; use device='cpu'")
    if found.type == "cuda" and found.index is not None and found.index >= torch.cuda.device_count():
        raise InputError(
            f"device is {device!r} and this machine has {torch.cuda.device_count()}; choose a lower number"
        )
    return found


def own_randomness(device: torch.device) -> AbstractContextManager[None]:
    """Torch's own generators, which dropout draws from, are as they were at the end."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])


@contextmanager
def training_mode(model: nn.Module) -> Iterator[None]:
    """All modules in training mode inside; afterwards each is back in the mode it had."""
    resting = [module for module in model.modules() if not module.training]
    model.train()
    try:
        yield
    finally:
        for module in resting:
            module.training = False
