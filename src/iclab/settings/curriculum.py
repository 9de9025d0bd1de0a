"""Curricula: scalars of prompts that grow while a model is trained, as pure functions of the step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from iclab.errors import InputError, check_integer

_MOST_STAGES = 10_000


@dataclass(frozen=True)
class Ramp:
    """A scalar that grows in steps: ``min(stop, start + by * floor(step / every))`` at step 0, 1, ...

    Attributes:
        start: the value at step 0.
        stop: the last value; the last increase is cut to it.
        by: the size of an increase.
        every: training steps between increases.

    Raises:
        InputError: for numbers that are not finite, a ramp that shrinks or stands still before ``stop``, or one of more
            than 10,000 increases.
    """

    start: float
    stop: float
    by: float
    every: int

    def __post_init__(self) -> None:
        for name in ("start", "stop", "by"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InputError(f"{name} of a ramp is {value!r}; expected a finite number")
        check_integer("every of a ramp", self.every, 1)
        if self.stop < self.start or self.by <= 0:
            raise InputError(
                f"a ramp goes from {self.start} to {self.stop} by {self.by}; expected one that grows: "
                "stop >= start and by > 0"
            )
        if self.num_steps > _MOST_STAGES:
            raise InputError(
                f"a ramp from {self.start} to {self.stop} has {self.num_steps} steps; expected at most {_MOST_STAGES}: "
                f"raise by = {self.by}"
            )

    @property
    def num_steps(self) -> int:
        """How often the value changes."""
        # Without the small number, 0.3 / 0.1 would need a fourth increase of 4e-17.
        return math.ceil((self.stop - self.start) / self.by - 1e-9)

    @property
    def end(self) -> int:
        """The first step with the last value."""
        return self.num_steps * self.every

    def at(self, step: int) -> float:
        """Return the value at ``step``; an ``int`` where all numbers of the ramp are."""
        index = step // self.every
        return self.stop if index >= self.num_steps else self.start + self.by * index

    def changes(self) -> Iterator[int]:
        """Return the steps at which the value differs from that of the step before."""
        return (index * self.every for index in range(1, self.num_steps + 1))


@dataclass(frozen=True, init=False)
class Curriculum:
    """Ramps of named scalars, for ``Curriculum(num_examples=Ramp(11, 41, 2, 2000), ambient_dim=Ramp(5, 20, 1, 2000))``.

    ``num_examples`` is the number of examples in a prompt. Every other name belongs to the distribution of prompts, see
    `iclab.prompts.PromptDistribution.scalars`. What has no ramp stays as it is.

    The numbers of this example are the recipe of arXiv 2208.01066, in use throughout the field.

    Raises:
        InputError: for a value that is no `Ramp`.
    """

    ramps: tuple[tuple[str, Ramp], ...]

    def __init__(self, **ramps: Ramp) -> None:
        for name, ramp in ramps.items():
            if not isinstance(ramp, Ramp):
                raise InputError(
                    f"the curriculum of {name} is {ramp!r}; expected a Ramp, such as Ramp(start=5, stop=20, by=1, "
                    "every=2000)"
                )
        object.__setattr__(self, "ramps", tuple(sorted(ramps.items())))

    def values(self, step: int) -> dict[str, float]:
        """Return the value of each scalar at ``step``."""
        return {name: ramp.at(step) for name, ramp in self.ramps}

    def changes(self) -> list[int]:
        """Return the steps at which some value changes, in order."""
        return sorted({step for _, ramp in self.ramps for step in ramp.changes()})

    def asdict(self) -> dict[str, list[float]]:
        """Return ``{name: [start, stop, by, every]}``."""
        return {name: [ramp.start, ramp.stop, ramp.by, ramp.every] for name, ramp in self.ramps}
