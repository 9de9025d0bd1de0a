"""What a training tells at its end, and while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TrainRecord:
    """What `train` saw.

    Attributes:
        metrics: the lines of ``metrics.jsonl``, those before a resumption too.
        settings: every argument that the result depends on, and the model's own settings.
        steps: steps taken in all.
        resumed_from: the step at which this call began, 0 for a fresh training.
        seconds: of all calls together.
        zero_line: mean square of the evaluation labels, the error of predicting zero; ``None`` without evaluation.
        best_step, best_loss: of the evaluation with the smallest loss; ``None`` without evaluation.
        checkpoint, best_checkpoint: files of the last and the best weights; ``None`` where there are none.
        device, processes, threads: where it ran; they change rounding and nothing else.
    """

    metrics: tuple[Mapping[str, Any], ...]
    settings: Mapping[str, Any]
    steps: int
    resumed_from: int
    seconds: float
    zero_line: float | None
    best_step: int | None
    best_loss: float | None
    checkpoint: Path | None
    best_checkpoint: Path | None
    device: str
    processes: int
    threads: int


@dataclass(frozen=True)
class TrainProgress:
    """How far a training is: the argument of the callback ``progress``.

    Attributes:
        step, steps: steps taken, and of the whole training.
        loss: mean over the steps since the last call.
        learning_rate: of the last step.
        elapsed: seconds of this call of `train`.
        left: seconds that are left at the pace so far, where a step counts as its number of examples.
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    elapsed: float
    left: float
