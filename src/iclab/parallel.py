"""Independent pieces of work on all of torch's threads, results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")

_WINDOW = 256  # pieces in flight: bounds memory, and is far above any number of cores


def map_in_order(function: Callable[[int], Result], count: int) -> Iterator[Result]:
    """``function(0), ..., function(count - 1)``, computed by ``torch.get_num_threads()`` threads, yielded in order.

    Each piece runs its torch operations on one thread, so a result does not depend on how many work beside it, and
    the threads of the pieces do not compete with torch's own. Whether gradients are recorded is as in the caller.
    """
    threads = torch.get_num_threads()
    if threads == 1 or count <= 1:
        yield from map(function, range(count))
        return
    recording = torch.is_grad_enabled()

    def piece(number: int) -> Result:
        with torch.set_grad_enabled(recording):  # the mode belongs to a thread; a new one records
            return function(number)

    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for start in range(0, count, _WINDOW):
                yield from pool.map(piece, range(start, min(start + _WINDOW, count)))
    finally:
        torch.set_num_threads(threads)
