"""What a cell costs: counted work, and the seconds that it takes at the rates of a machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iclab.machine import Rates, machine_rates

GPU = Rates(operations=15e12, bytes=1e12, numbers=math.inf, calls=1 / 6e-6)
"""Assumed, never measured, of a GPU of the class of an NVIDIA A100 or better: what small models in float32 get, which
is less than its data sheet says. Prompts are drawn on the CPU meanwhile."""

DOLLARS_PER_HOUR = 2.0
"""Of renting one."""

GPU_ASSUMPTIONS = (
    f"computed, not measured: {GPU.operations / 1e12:g} TFLOP/s, {GPU.bytes / 1e12:g} TB/s, "
    f"{1e6 / GPU.calls:g} us a kernel, {DOLLARS_PER_HOUR:g} dollars an hour"
)


@dataclass(frozen=True)
class Work:
    """Counted work; the fields are those of `iclab.machine.Rates`, in whose units it is counted.

    Attributes:
        operations: of matrix products in float32.
        bytes: read and written by all else.
        numbers: drawn.
        calls: small operations on tensors; on a GPU, kernels.
    """

    operations: float = 0.0
    bytes: float = 0.0
    numbers: float = 0.0
    calls: float = 0.0

    def __mul__(self, count: float) -> Work:
        return Work(self.operations * count, self.bytes * count, self.numbers * count, self.calls * count)

    __rmul__ = __mul__

    def __add__(self, other: Work) -> Work:
        return Work(
            self.operations + other.operations,
            self.bytes + other.bytes,
            self.numbers + other.numbers,
            self.calls + other.calls,
        )

    def seconds(self, rates: Rates | None = None) -> float:
        """Return the rough seconds on one core, one kind of work after another.

        Args:
            rates: of the machine; ``None`` for this one.
        """
        rates = machine_rates() if rates is None else rates
        return (
            self.operations / rates.operations
            + self.bytes / rates.bytes
            + self.numbers / rates.numbers
            + self.calls / rates.calls
        )

    @property
    def gpu_seconds(self) -> float:
        """Rough seconds on a GPU, where launching goes on beside computing: the slower of the two counts."""
        return max(self.operations / GPU.operations + self.bytes / GPU.bytes, self.calls / GPU.calls)


@dataclass(frozen=True)
class Cost:
    """What some cells cost, roughly; ``None`` for what nobody knows.

    Attributes:
        seconds: on one core of this machine.
        gpu_seconds: of trainings on one GPU; zero without any.
        memory: bytes of a process that computes the largest of them.
        disk: bytes that they leave in the run folder.
    """

    seconds: float | None
    gpu_seconds: float
    memory: float | None
    disk: float | None

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of the cells of both, one after another in one process."""
        return Cost(
            None if self.seconds is None or other.seconds is None else self.seconds + other.seconds,
            self.gpu_seconds + other.gpu_seconds,
            None if self.memory is None or other.memory is None else max(self.memory, other.memory),
            None if self.disk is None or other.disk is None else self.disk + other.disk,
        )


def dollars(seconds: float) -> float:
    """Return the price of so many seconds on a GPU."""
    return seconds / 3600 * DOLLARS_PER_HOUR
