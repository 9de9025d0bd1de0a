"""The phases of a training: stretches of steps over which a curriculum stands still."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iclab.errors import InputError, check_integer
from iclab.prompts import PromptDistribution
from iclab.prompts.distribution import check_distribution
from iclab.settings.curriculum import Curriculum, Ramp


@dataclass(frozen=True)
class Phase:
    """Steps ``start <= step < stop`` and what is trained on in them.

    Attributes:
        start, stop: the steps.
        prompts: the distribution of prompts.
        num_examples: N.
        values: the curriculum's scalars, for the record.
    """

    start: int
    stop: int
    prompts: PromptDistribution
    num_examples: int
    values: Mapping[str, float]


class Plan:
    """All phases of a training; the phase of a step is a function of the step alone, so a resumed training agrees.

    Args:
        prompts: the distribution that the curriculum ends with.
        num_examples: the number of examples that it ends with.
        steps: of the whole training.
        curriculum: the ramps.
        max_examples: of the model, or ``None``.

    Raises:
        InputError: for a curriculum beyond the model's positions, one that ends elsewhere than at ``prompts`` and
            ``num_examples`` or after ``steps``, and what the method ``adjusted`` of the prompts refuses.
    """

    def __init__(
        self,
        prompts: PromptDistribution,
        num_examples: int,
        steps: int,
        curriculum: Curriculum,
        max_examples: int | None = None,
    ) -> None:
        ramps = dict(curriculum.ramps)
        for name, ramp in ramps.items():
            _check_end(name, ramp, steps)
        longest = max(num_examples, _size(ramps["num_examples"].stop) if "num_examples" in ramps else 0)
        if max_examples is not None and longest > max_examples:
            raise InputError(
                f"training reaches prompts of {longest} examples and the model has positions for {max_examples}; lower "
                "num_examples and its ramp, or build the model with more positions"
            )
        for name, ramp in ramps.items():
            final = num_examples if name == "num_examples" else _final(prompts, name, ramp.stop)
            if ramp.stop != final:
                raise InputError(
                    f"the ramp of {name} stops at {ramp.stop} and training is for {name} = {final}; let it stop there"
                )
        starts = [0, *(step for step in curriculum.changes() if step < steps)]
        self.phases = tuple(
            _phase(start, stop, prompts, num_examples, curriculum.values(start))
            for start, stop in zip(starts, [*starts[1:], steps], strict=True)
        )
        self._starts = starts

    def at(self, step: int) -> Phase:
        """The phase of ``step >= 0``; beyond the last step, the last one."""
        return self.phases[bisect_right(self._starts, step) - 1]

    def work(self, start: int, stop: int) -> float:
        """Examples of a prompt summed over the steps ``start`` to ``stop - 1``: time is roughly proportional to it."""
        return sum(
            phase.num_examples * max(0, min(stop, phase.stop) - max(start, phase.start)) for phase in self.phases
        )


def check_dimension(phases: Sequence[Phase], input_dim: int) -> None:
    """Raise `InputError` unless every phase's prompts have the model's input dimension."""
    for phase in phases:
        if phase.prompts.ambient_dim != input_dim:
            raise InputError(
                f"the prompts have dimension {phase.prompts.ambient_dim} and the model was built for {input_dim}; "
                "build it with the dimension of the prompts"
            )


def _phase(start: int, stop: int, prompts: PromptDistribution, num_examples: int, values: dict[str, float]) -> Phase:
    distribution = {name: value for name, value in values.items() if name != "num_examples"}
    count = _size(values["num_examples"]) if "num_examples" in values else num_examples
    changed = prompts.adjusted(**distribution) if distribution else prompts
    final = check_distribution(changed, f"what adjusted() of {type(prompts).__name__} returned")
    return Phase(start, stop, final, count, values)


def _final(prompts: PromptDistribution, name: str, default: float) -> float:
    return prompts.scalars().get(name, getattr(prompts, name, default))


def _check_end(name: str, ramp: Ramp, steps: int) -> None:
    if ramp.end >= steps:
        raise InputError(
            f"the ramp of {name} ends at step {ramp.end} and training has {steps} steps; expected to train at "
            f"{name} = {ramp.stop} too: make the ramp shorter or training longer"
        )


def _size(value: float) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return check_integer("num_examples of a curriculum", value, 1)
