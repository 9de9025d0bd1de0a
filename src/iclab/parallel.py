"""Independent pieces of work on all of torch's threads, results in order."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")

_WINDOW = 256  # pieces in flight: bounds memory, and is far above any number of cores
_pools: dict[int, ThreadPoolExecutor] = {}
_making = threading.Lock()
_forked = False  # such a process has none of the threads that OpenMP believes in, and would wait for them


def torch_team() -> Callable[[Any, Any, int], None] | None:
    """What runs a compiled function on torch's own team of threads, or ``None`` where it cannot be had.

    It takes the function, as ``ctypes`` has it, its one argument, a pointer, and the number of threads, each of which
    calls the function. A team of our own would compete with torch's: a thread of GCC's OpenMP that has nothing to do
    keeps its core busy for milliseconds before it sleeps.
    """
    return None if _forked else _find_team()


@functools.cache
def _find_team() -> Callable[[Any, Any, int], None] | None:
    """From the OpenMP that torch itself was linked with: a second one in a process has threads of its own."""
    try:
        parallel = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libtorch_cpu.so")).GOMP_parallel
    except (OSError, AttributeError):  # another system, or an OpenMP without that entry
        return None
    return lambda function, argument, threads: parallel(function, argument, ctypes.c_uint(threads), ctypes.c_uint(0))


def map_in_order(function: Callable[[int], Result], count: int) -> Iterator[Result]:
    """``function(0), ..., function(count - 1)``, computed by ``torch.get_num_threads()`` threads, yielded in order.

    Each piece runs its torch operations on one thread, also where it is the only one, so a result depends neither on
    how many work beside it nor on the number of threads, and the threads of the pieces do not compete with torch's
    own. A piece that maps again does so on its own thread.
    Whether gradients are recorded is as in the caller.
    """
    threads = torch.get_num_threads()
    if threads == 1 or count == 0:
        yield from map(function, range(count))
        return
    recording = torch.is_grad_enabled()

    def piece(number: int) -> Result:
        with torch.set_grad_enabled(recording):  # the mode belongs to a thread; a new one records
            return function(number)

    pool = _pool(threads)
    for start in range(0, count, _WINDOW):
        yield from pool.map(piece, range(start, min(start + _WINDOW, count)))


def _pool(threads: int) -> ThreadPoolExecutor:
    """The process's pool of that size: giving a thread its torch settings takes about a millisecond, so they stay."""
    with _making:
        if threads not in _pools:
            all_here = threading.Barrier(threads)

            def begin() -> None:
                torch.set_num_threads(1)
                torch.get_num_threads()  # a thread takes the process's number at its first use, and keeps it
                all_here.wait()

            pool = ThreadPoolExecutor(threads, "iclab", initializer=begin)
            for future in [pool.submit(int) for _ in range(threads)]:
                future.result()
            torch.set_num_threads(threads)  # what this thread, and those yet to come, use
            _pools[threads] = pool
        return _pools[threads]


def _forget_pools() -> None:
    """A forked child has none of its parent's threads, and perhaps a lock that nobody will release."""
    global _making, _forked
    _making, _forked = threading.Lock(), True
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)
