"""Ways to run cells. An executor is a function from jobs to an iterator of what became of them."""

from iclab.runs.executors.inline import run_inline
from iclab.runs.executors.job import Job
from iclab.runs.executors.local import run_local

__all__ = ["Job", "run_inline", "run_local"]
