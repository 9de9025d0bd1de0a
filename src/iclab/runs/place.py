"""`Place`: what a cell is computed with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iclab import __version__
from iclab.execution import Execution
from iclab.experiments.identity import canonical_json


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

    def execution(self, code: str | None) -> Execution:
        """What the code of an experiment is told, if it is this code."""
        trainings = Path(self.trainings) if self.trainings else None
        computed_by = canonical_json([__version__, code, self.threads, self.device])
        return Execution(self.device, trainings, tuple(map(Path, self.shared)), computed_by)
