"""The number of threads of a cell: part of what its last digits depend on, so it is the same on every engine."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

from iclab.errors import InputError, check_integer

_MOST_PER_CORE = 16
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def available_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def check_most(name: str, number: int) -> int:
    """Return ``number`` of threads or workers; refuse what no machine of this size carries.

    Raises:
        InputError: naming the cores there are.
    """
    cores = available_cores()
    most = _MOST_PER_CORE * cores
    if check_integer(name, number, 1) > most:
        raise InputError(f"{name} is {number} and this machine offers {cores} cores; expected at most {most}")
    return number


def set_thread_variables(threads: int, environment: MutableMapping[str, str]) -> None:
    """Set the threads of the numeric libraries of a process; works only before it imports them."""
    environment.update(dict.fromkeys(VARIABLES, str(threads)))


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Give torch ``threads`` threads, and the former number back afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
