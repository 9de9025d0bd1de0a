"""How a cell is computed, as far as the code of an experiment has a say in it. Never part of a configuration.

A cell is a function of its configuration alone. Like the number of threads, what stands here is set around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Execution:
    """Where deep models are trained, and where their trainings are kept.

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
