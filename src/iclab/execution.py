"""How a cell is computed. Never part of a configuration, and never hashed.

A cell is a function of its configuration alone. Like the number of threads, what stands here is set around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Execution:
    """Execution settings of a cell.

    Attributes:
        device: of deep models.
        trainings: folder in which each training has a folder of its own, so that one that was interrupted goes on and
            one that is finished is not repeated; ``None`` keeps nothing.
        shared: such folders of other runs, to take trainings from.
        threads: of torch.
    """

    device: str = "cpu"
    trainings: Path | None = None
    shared: tuple[Path, ...] = ()
    threads: int = 1

    @property
    def recorded(self) -> dict[str, Any]:
        """The settings that a cell's last digits may depend on: recorded with it."""
        return {"threads": self.threads, "device": self.device}

    def to_json(self) -> dict[str, Any]:
        """Return all settings as JSON values."""
        trainings = None if self.trainings is None else str(self.trainings)
        return {**self.recorded, "trainings": trainings, "shared": [str(folder) for folder in self.shared]}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Execution:
        """Read the settings that `to_json` has written."""
        trainings = None if values["trainings"] is None else Path(values["trainings"])
        return cls(values["device"], trainings, tuple(map(Path, values["shared"])), values["threads"])


_execution: ContextVar[Execution] = ContextVar("iclab_execution", default=Execution())  # noqa: B039 (it is frozen)


def execution() -> Execution:
    """That of the cell that runs; the CPU and no folder where none was set."""
    return _execution.get()


@contextmanager
def executing(chosen: Execution) -> Iterator[None]:
    """Inside, `execution` is ``chosen``."""
    token = _execution.set(chosen)
    try:
        yield
    finally:
        _execution.reset(token)
