"""Rough time and price of a training on one GPU, from what a step computes, moves and launches. Never measured here.

The GPU is one of the class of an NVIDIA A100 or better, and what is assumed of it is what small models in float32 get,
not what its data sheet says. The price is that of renting one for an hour.
"""

from __future__ import annotations

from dataclasses import dataclass

OPERATIONS_PER_SECOND = 15e12
BYTES_PER_SECOND = 1e12
SECONDS_PER_LAUNCH = 6e-6
DOLLARS_PER_HOUR = 2.0
ASSUMPTIONS = (
    f"computed, not measured: {OPERATIONS_PER_SECOND / 1e12:g} TFLOP/s, {BYTES_PER_SECOND / 1e12:g} TB/s, "
    f"{SECONDS_PER_LAUNCH * 1e6:g} us a kernel, {DOLLARS_PER_HOUR:g} dollars an hour"
)


@dataclass(frozen=True)
class StepCost:
    """Of one training step, forward and backward.

    Attributes:
        operations: floating-point operations of its matrix products.
        bytes: read and written by all else.
        launches: kernels.
    """

    operations: float
    bytes: float
    launches: float

    @property
    def seconds(self) -> float:
        """On one GPU: launching goes on beside computing, so the slower of the two counts."""
        return max(
            self.operations / OPERATIONS_PER_SECOND + self.bytes / BYTES_PER_SECOND, self.launches * SECONDS_PER_LAUNCH
        )


def dollars(seconds: float) -> float:
    """The price of so many seconds."""
    return seconds / 3600 * DOLLARS_PER_HOUR
