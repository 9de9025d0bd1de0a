"""Running experiments: run folders, executors, resume and results."""

from typing import TYPE_CHECKING

from iclab.lazy import lazy

if TYPE_CHECKING:
    from iclab.execution import Execution
    from iclab.runs.executors import EXECUTORS, Executor, load_executor
    from iclab.runs.jobs import Failed, Job, Measured
    from iclab.runs.payload import measure
    from iclab.runs.plan import Plan, plan_run
    from iclab.runs.results import load_results
    from iclab.runs.run import Outcome, RunInterrupted, remake, run_experiment

__all__ = [
    "EXECUTORS",
    "Execution",
    "Executor",
    "Failed",
    "Job",
    "Measured",
    "Outcome",
    "Plan",
    "RunInterrupted",
    "load_executor",
    "load_results",
    "measure",
    "plan_run",
    "remake",
    "run_experiment",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "executors": ("EXECUTORS", "Executor", "Execution", "load_executor"),
        "jobs": ("Failed", "Job", "Measured"),
        "payload": ("measure",),
        "plan": ("Plan", "plan_run"),
        "results": ("load_results",),
        "run": ("Outcome", "RunInterrupted", "remake", "run_experiment"),
    },
)
