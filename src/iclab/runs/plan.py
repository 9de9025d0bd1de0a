"""What a run would do: who computes how many cells, for how long, with how much memory and disk. Nothing is written."""

from __future__ import annotations

import traceback
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iclab.errors import InputError, cut
from iclab.execution import Execution
from iclab.experiments.cost import Cost
from iclab.experiments.kind import total_cost
from iclab.experiments.resolved import Resolved
from iclab.runs.executors import Executor, default_executor, load_executor
from iclab.runs.folder import RunFolder
from iclab.runs.jobs import Failed, Job, Measured
from iclab.runs.storage import is_finished
from iclab.runs.threads import check_most


@dataclass(frozen=True)
class Workers:
    """The executor of a run with its settings."""

    executor: Executor
    count: int
    execution: Execution

    @property
    def parallel(self) -> int:
        """Cells that advance at full speed at once."""
        return self.executor.parallel(self.count, self.execution)

    def outcomes(self, jobs: Sequence[Job]) -> Generator[Measured | Failed, None, None]:
        """Yield one outcome of each job; jobs without one have failed, also where the executor raises.

        Raises:
            InputError: if the executor does, or yields anything else.
        """
        left = {job.cell: None for job in jobs}
        reason, details = f"the engine {self.executor.name} yielded nothing for this cell", ""
        try:
            for outcome in self.executor.run(jobs, self.execution, self.count):
                if not isinstance(outcome, Measured | Failed) or outcome.cell not in left:
                    raise InputError(
                        f"the engine {self.executor.name} yielded {cut(outcome)}; expected Measured or Failed, once "
                        "for each job"
                    )
                del left[outcome.cell]
                yield outcome
        except InputError:
            raise
        except Exception as error:
            # It may be a user's own, or lose a machine: finished cells stay, and the same command tries the others.
            from iclab.runs.payload import reason_of

            reason = f"the engine {self.executor.name} stopped: {reason_of(error)}"
            details = traceback.format_exc()
        for cell in left:
            yield Failed(cell, reason, details)


def check_execution(engine: str | None, workers: int | None, threads: int) -> None:
    """Refuse execution settings that cannot be had, before anything is imported or written for them.

    Raises:
        InputError: for an unknown engine, and numbers of threads and workers that it or this machine does not carry.
    """
    check_most("threads", threads)
    load_executor(engine or "local").num_workers(workers, Execution(threads=threads))


def choose_workers(engine: str | None, asked: int | None, execution: Execution, num_jobs: int) -> Workers:
    """Return who computes ``num_jobs`` cells.

    Raises:
        InputError: for an unknown engine, and a number of workers that it cannot have.
    """
    executor = load_executor(engine) if engine else default_executor(num_jobs, asked, execution)
    # What is asked for without naming an engine is the most, which a single cell does not need.
    count = executor.num_workers(asked if engine or num_jobs > 1 else None, execution)
    return Workers(executor, min(count, num_jobs), execution)


def check_device(device: str) -> None:
    """Refuse a device that is not here, or that torch does not know.

    Raises:
        InputError: naming the devices that are here.
    """
    if device != "cpu":
        from iclab.pretraining.device import named_device

        named_device(device)


@dataclass(frozen=True)
class Plan:
    """What is left to do of a run.

    Attributes:
        folder: the run folder.
        num_cells: of the grid.
        num_finished: stored in the folder already.
        engine: the name of the executor; empty where no cell is left.
        workers: cells at once.
        parallel: cells that advance at full speed at once.
        cost: of the cells that are left.
    """

    folder: Path
    num_cells: int
    num_finished: int
    engine: str
    workers: int
    parallel: int
    cost: Cost

    @property
    def seconds(self) -> float | None:
        """Rough seconds until all is done; ``None`` where the kind does not know."""
        return None if self.cost.seconds is None else self.cost.seconds / max(1, self.parallel)

    @property
    def memory(self) -> float | None:
        """Rough bytes of all workers together; ``None`` where the kind does not know."""
        return None if self.cost.memory is None else self.cost.memory * self.workers


def plan_run(
    resolved: Resolved,
    folder: Path | str | None = None,
    *,
    engine: str | None = None,
    workers: int | None = None,
    threads: int = 1,
    device: str = "cpu",
) -> Plan:
    """Return what `iclab.runs.run_experiment` would do with the same arguments; nothing is run.

    Args:
        resolved, folder, engine, workers, threads, device: as in `iclab.runs.run_experiment`.

    Raises:
        InputError: for what that would refuse.
    """
    check_execution(engine, workers, threads)
    check_device(device)
    shown = Path(folder) if folder is not None else Path("runs") / resolved.folder_name
    run = RunFolder(shown.absolute())
    run.check(resolved.to_json())
    pending = [cell for cell in resolved.cells if not is_finished(run.cell(cell.id))]
    total, cost = len(resolved.cells), total_cost(resolved.kind, (cell.config for cell in pending))
    if not pending:
        return Plan(shown, total, total, "", 0, 0, cost)
    chosen = choose_workers(engine, workers, Execution(device, threads=threads), len(pending))
    return Plan(shown, total, total - len(pending), chosen.executor.name, chosen.count, chosen.parallel, cost)
