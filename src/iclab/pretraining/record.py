"""What the ways to train have in common when they end, and while they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Record(ABC):
    """What a training saw.

    Attributes:
        settings: all that the result depends on, as JSON holds it.
        seconds: wall-clock seconds, drawing prompts included.
    """

    settings: Mapping[str, Any]
    seconds: float

    @property
    @abstractmethod
    def final_loss(self) -> float:
        """The training loss at the end."""


@dataclass(frozen=True)
class TrainProgress:
    """How far a training is: the argument of the callback ``progress``.

    Attributes:
        step, steps: steps taken, and of the whole training.
        loss: mean over the steps since the last call.
        learning_rate: of the last step.
        elapsed: seconds of this call.
        left: seconds that are left at the pace so far, where a step counts as its number of examples.
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    elapsed: float
    left: float
