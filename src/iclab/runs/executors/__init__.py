"""Executors run cells: here, on processes of this machine, or wherever a class of one's own runs them.

`EXECUTORS` names them by strings, so this module is light. An executor takes `Job`s and yields what became of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from iclab.config.loading import load_object, split_name
from iclab.errors import InputError, check_integer, did_you_mean, listed
from iclab.execution import Execution
from iclab.runs.threads import available_cores

if TYPE_CHECKING:
    from iclab.runs.jobs import Failed, Job, Measured

EXECUTORS: dict[str, str] = {
    "inline": "iclab.runs.executors.inline:Inline",
    "local": "iclab.runs.executors.local:Local",
}


class Executor(ABC):
    """A way to run cells. A class of one's own is named ``module:Class``; it is built without arguments.

    Attributes:
        name: recorded in ``environment.json``.
    """

    name: ClassVar[str]

    @abstractmethod
    def run(self, jobs: Sequence[Job], execution: Execution, workers: int) -> Iterable[Measured | Failed]:
        """Run each job and yield what became of it, in any order; `iclab.runs.measure` runs one.

        It is a generator: closing it, or an exception such as Ctrl-C in it, ends what it has started.

        Args:
            jobs: cells that are not finished.
            execution: settings of each cell.
            workers: what `num_workers` returned.

        Returns:
            One outcome a job. Cells without an outcome count as failed.
        """

    def num_workers(self, asked: int | None, execution: Execution) -> int:
        """Return how many cells run at once.

        Args:
            asked: by default as many as the cores of this machine carry.
            execution: settings of each cell.

        Raises:
            InputError: for a number that this executor cannot have.
        """
        return max(1, available_cores() // execution.threads) if asked is None else check_integer("workers", asked, 1)

    def parallel(self, workers: int, execution: Execution) -> int:
        """Return how many cells advance at full speed at once: what the forecast of the time left counts.

        Args:
            workers: what `num_workers` returned.
            execution: settings of each cell.
        """
        return workers


def load_executor(name: str) -> Executor:
    """Load the executor called ``name``: a key of `EXECUTORS`, or ``module:Class`` for one's own.

    Raises:
        InputError: for an unknown name, a module that cannot be imported, or an object that is no `Executor`.
    """
    full_name = EXECUTORS.get(name, name)
    if split_name(full_name) is None:
        raise InputError(
            f"unknown engine {name!r}{did_you_mean(name, EXECUTORS)}; expected one of {listed(EXECUTORS)}, "
            "or module:Class for your own"
        )
    found = load_object("the engine", full_name)
    if not (isinstance(found, type) and issubclass(found, Executor)):
        raise InputError(f"the engine {name!r} is {found!r}; expected a class derived from iclab.runs.Executor")
    if not isinstance(getattr(found, "name", None), str):
        raise InputError(f"the engine {name!r} has no name; give the class an attribute name, a string")
    try:
        return found()
    except TypeError as error:
        raise InputError(f"the engine {name!r} cannot be built ({error}); expected a class without arguments") from None


def default_executor(num_jobs: int, workers: int | None, execution: Execution) -> Executor:
    """Several processes for several cells on several cores; on another device than the CPU only where workers are
    asked for, since the cells would share it."""
    divisible = execution.device == "cpu" or workers is not None
    return load_executor("local" if divisible and num_jobs > 1 and available_cores() > 1 else "inline")
