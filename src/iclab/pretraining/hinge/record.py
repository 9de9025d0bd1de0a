"""What `hinge_sgd` saw: loss and error of fresh prompts, window by window, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from iclab.pretraining.record import Record

_Z = 1.959963984540054  # two-sided 95 % of a Gaussian


@dataclass(frozen=True)
class HingeWindow:
    """Some consecutive steps. Every prompt is fresh, so these are test errors of the weights on the way.

    Attributes:
        step: the last step, counted from 1.
        num_prompts: prompts of the window; a prompt counts once, with the mean over its queries.
        loss: mean hinge loss.
        loss_error: its standard error over prompts.
        error: mean 0-1 error, ``sign(F) != z``; ``F = 0`` counts as an error.
        error_low, error_high: 95 % Wilson interval of ``error`` over prompts.
    """

    step: int
    num_prompts: int
    loss: float
    loss_error: float
    error: float
    error_low: float
    error_high: float

    @property
    def loss_low(self) -> float:
        """Lower end of the 95 % interval of ``loss``, by the central limit theorem."""
        return max(0.0, self.loss - _Z * self.loss_error)

    @property
    def loss_high(self) -> float:
        """Its upper end."""
        return self.loss + _Z * self.loss_error

    @staticmethod
    def measure(step: int, margins: Tensor) -> HingeWindow:
        """Summarise the prompts of a window.

        Args:
            step: the last one of the window.
            margins: ``zF``, ``(prompts, Q)``.
        """
        margins = margins.double()
        losses = (1 - margins).clamp(min=0).mean(1)
        count = len(losses)
        spread = float(losses.std()) if count > 1 else math.nan
        error = float((margins <= 0).double().mean())
        low, high = wilson(error, count)
        return HingeWindow(step, count, float(losses.mean()), spread / math.sqrt(count), error, low, high)


@dataclass(frozen=True, kw_only=True)
class HingeRecord(Record):
    """What `hinge_sgd` saw.

    Attributes:
        settings: `HingeSettings` with the step size of gates in use, the stream, the model and its own settings.
        seconds: of all steps.
        windows: of ``log_every`` steps each; the last may be shorter.
        steps: steps taken.
        gradients: ``analytic`` or ``autograd``.
    """

    windows: tuple[HingeWindow, ...]
    steps: int
    gradients: str

    @property
    def final_loss(self) -> float:
        """Mean hinge loss of the last window."""
        return self.windows[-1].loss

    def steps_to(self, loss: float) -> int | None:
        """Return the steps until the mean loss of a window was first at most ``loss``; ``None`` if it never was."""
        return next((window.step for window in self.windows if window.loss <= loss), None)

    def prompts_to(self, loss: float) -> int | None:
        """Return the prompts seen until the mean loss of a window was first at most ``loss``; ``None`` if never."""
        steps = self.steps_to(loss)
        return None if steps is None else steps * int(self.settings["batch_size"])


def wilson(share: float, count: int) -> tuple[float, float]:
    """95 % interval of a probability of which ``share`` of ``count`` trials is an estimate (Wilson, 1927).

    Of means of several dependent trials it is too wide, not too narrow.
    """
    centre = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * math.sqrt(share * (1 - share) / count + (_Z / (2 * count)) ** 2)
    return (0.0 if share == 0 else centre - half), (1.0 if share == 1 else centre + half)
