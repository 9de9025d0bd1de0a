"""What `train` saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iclab.pretraining.record import Record


@dataclass(frozen=True, kw_only=True)
class TrainRecord(Record):
    """What `train` saw.

    Attributes:
        settings: `TrainSettings`, the stream, and the model's own settings.
        seconds: of all calls together.
        metrics: the lines of ``metrics.jsonl``, those before a resumption too.
        steps: steps taken in all.
        resumed_from: the step at which this call began, 0 for a fresh training.
        zero_line: mean square of the evaluation labels, the error of predicting zero; ``None`` without evaluation.
        best_step, best_loss: of the evaluation with the smallest loss; ``None`` without evaluation.
        checkpoint, best_checkpoint: files of the last and the best weights; ``None`` where there are none.
        device, processes, threads: where it ran; they change rounding and nothing else.
    """

    metrics: tuple[Mapping[str, Any], ...]
    steps: int
    resumed_from: int
    zero_line: float | None
    best_step: int | None
    best_loss: float | None
    checkpoint: Path | None
    best_checkpoint: Path | None
    device: str
    processes: int
    threads: int

    @property
    def final_loss(self) -> float:
        """Mean loss of the last line of metrics."""
        return float(self.metrics[-1]["loss"])
