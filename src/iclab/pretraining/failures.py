"""How a training stops before its end: numbers that are not finite, and too little memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from iclab.errors import InputError

_ASKED = re.compile(r"tried to allocate (\d[\d.]*) ?([KMGT]i?B|bytes)?", re.IGNORECASE)
_CPU_MESSAGES = ("can't allocate memory", "not enough memory", "out of memory")


class NonFiniteLossError(FloatingPointError):
    """The loss or the norm of its gradient stopped being finite.

    Attributes:
        step: number of the step, counted from 1.
        loss, grad_norm: their values; the norm is that before clipping.
        learning_rate: of that step.
        checkpoint: the last one written, whose weights are from before that step; ``None`` without a folder.
    """

    def __init__(self, step: int, loss: float, grad_norm: float, learning_rate: float, checkpoint: Path | None) -> None:
        self.step, self.loss, self.grad_norm = step, loss, grad_norm
        self.learning_rate, self.checkpoint = learning_rate, checkpoint
        kept = "no checkpoint was written" if checkpoint is None else f"the last good checkpoint is {checkpoint}"
        super().__init__(
            f"at step {step} the loss is {loss:.6g} and its gradient's norm {grad_norm:.6g}, with learning rate "
            f"{learning_rate:.3g}; {kept}; lower the learning rate, warm up longer, or clip gradients"
        )


@contextmanager
def memory_advice(what: str, device: torch.device, settings: str) -> Iterator[None]:
    """Turn torch's errors about memory into an `InputError` with the size that was asked for.

    Args:
        what: was being done.
        device: where.
        settings: what to lower, with present values.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        text = str(error)
        if not _is_out_of_memory(error, text):
            raise
        found = _ASKED.search(text)
        asked = "memory" if found is None else f"{found[1]} {found[2] or 'bytes'} of memory"
        raise InputError(f"{what} asked for {asked} that {device} does not have; {settings}") from None


def _is_out_of_memory(error: Exception, text: str) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return "alloc" in text.lower() and any(message in text for message in _CPU_MESSAGES)
