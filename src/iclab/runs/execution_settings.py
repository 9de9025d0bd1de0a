"""`Place`: what a cell is computed with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iclab.execution import Execution


@dataclass(frozen=True)
class Place:
    """Never hashed.

    Attributes:
        threads: of torch.
        device: of deep models.
        trainings: the folder in which trainings are kept; none are where it is empty.
        shared: such folders of other runs.
    """

    threads: int = 1
    device: str = "cpu"
    trainings: str = ""
    shared: tuple[str, ...] = ()

    @property
    def recorded(self) -> dict[str, Any]:
        """What a cell's last digits may depend on: recorded with it."""
        return {"threads": self.threads, "device": self.device}

    @property
    def execution(self) -> Execution:
        """What the code of an experiment may know of it."""
        trainings = Path(self.trainings) if self.trainings else None
        return Execution(self.device, trainings, tuple(map(Path, self.shared)), self.threads)
