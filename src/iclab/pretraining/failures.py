"""How a training stops before its end: numbers that are not finite, and files that cannot be written."""

from __future__ import annotations

from pathlib import Path


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


def unwritten(error: OSError, folder: Path, checkpoint: Path | None) -> OSError:
    """The ``error`` that a file of the training in ``folder`` cannot be written, with what is left of the training."""
    left = "no checkpoint was written" if checkpoint is None else f"its last good checkpoint is {checkpoint.name}"
    reason = f"{error.strerror or error}; the training in {folder} has stopped and {left}; the same call goes on"
    return OSError(error.errno, reason, error.filename)
