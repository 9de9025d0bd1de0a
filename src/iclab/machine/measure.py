"""Measure the rates of this machine and print them as JSON: ``python -m iclab.machine.measure``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict

import torch

from iclab.machine import Rates

_SIZE = 512  # of the matrices; 3 MB in all
_COPIED = 1 << 26  # bytes, more than caches hold
_REPEATS = 25


def measure() -> Rates:
    """Measure the rates on one thread, each the best of several tries, since other programs only ever slow one down."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        left, right = torch.ones(_SIZE, _SIZE), torch.ones(_SIZE, _SIZE)
        product = torch.empty_like(left)
        source = torch.zeros(_COPIED // 4)
        target = torch.empty_like(source)
        numbers = torch.empty(1 << 20)
        generator = torch.Generator().manual_seed(0)
        small = torch.ones(8)

        def best(count: float, work: Callable[[], object]) -> float:
            taken = []
            for _ in range(_REPEATS):
                start = time.perf_counter()
                work()
                taken.append(time.perf_counter() - start)
            return count / max(min(taken), 1e-9)

        return Rates(
            operations=best(2.0 * _SIZE**3, lambda: torch.mm(left, right, out=product)),
            bytes=best(2.0 * _COPIED, lambda: target.copy_(source)),
            numbers=best(numbers.numel(), lambda: numbers.normal_(generator=generator)),
            calls=best(1000, lambda: [small.add(small) for _ in range(1000)]),
        )
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    print(json.dumps(asdict(measure())))
