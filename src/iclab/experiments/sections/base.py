"""What sections of prompts and of learners have in common, so that any learner can be tried on any prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from iclab.experiments.kind import Config
from iclab.experiments.roles import Role

if TYPE_CHECKING:
    from torch import Tensor

    from iclab.estimators.base import Learner
    from iclab.evaluation.measurement import Measurement
    from iclab.prompts import PromptDistribution, Stream


class PromptsSection(Config):
    """Base of the sections that describe a prompt distribution; each kind has a discriminator ``kind``."""

    def build(self, seed: int) -> PromptDistribution:
        """Return the prompt distribution; what is random of it is drawn from ``seed``.

        Raises:
            InputError: for what the mathematics or this machine does not allow.
        """
        raise NotImplementedError

    def dimension(self, seed: int) -> int:
        """Return d, the dimension of an input."""
        return self.build(seed).ambient_dim

    def typical_labels(self, seed: int) -> Tensor:
        """Return labels that every run meets, by which gates are checked."""
        raise NotImplementedError

    def draw_seconds(self, seed: int, num_prompts: float, length: float) -> float:
        """Return the rough seconds on one core to draw prompts of ``length`` tokens and read them once."""
        raise NotImplementedError


@dataclass(frozen=True)
class Setting:
    """What a learner of a cell is fitted for.

    Attributes:
        prompts: the section of the prompts that it is fitted on.
        seed: of the cell.
        num_examples: the context lengths that it is tested at.
        num_prompts: the number of prompts that it is tested on, at each length.
        num_queries: of each of them.
    """

    prompts: PromptsSection
    seed: int
    num_examples: Sequence[int] = (1,)
    num_prompts: int = 1
    num_queries: int = 1

    @cached_property
    def distribution(self) -> PromptDistribution:
        """The prompts, built once for all learners."""
        return self.prompts.build(self.seed)

    @cached_property
    def dimension(self) -> int:
        """d, the dimension of an input; known without building the prompts where their section has it."""
        return self.prompts.dimension(self.seed)

    @property
    def stream(self) -> Stream:
        """All randomness of the cell."""
        from iclab.prompts import Stream

        return Stream(self.seed)

    @property
    def longest(self) -> int:
        """The longest context that learners are tested at."""
        return max(self.num_examples)


class LearnerSection(Config):
    """Base of the sections that describe a learner; each kind has a discriminator ``kind``.

    ``label`` is what figures call it, its key in the configuration where empty; ``role`` is what it is to a comparison.
    """

    label: str = ""
    role: Role = "model"

    def fit(self, name: str, setting: Setting) -> tuple[Learner, list[Measurement]]:
        """Pretrain, tune or calibrate a learner.

        Args:
            name: what measurements call it.
            setting: what it is fitted for.

        Returns:
            What predicts, and what the fit itself measured.
        """
        raise NotImplementedError

    def check(self, key: str, setting: Setting) -> None:
        """Refuse what the types allow and the mathematics or this machine does not, before anything is computed.

        Args:
            key: of this section, for messages.
            setting: what the learner would be fitted for.

        Raises:
            InputError: for the first fault.
        """

    def fit_seconds(self, setting: Setting) -> float:
        """Return the rough seconds on one core of `fit`; NaN where nobody knows."""
        raise NotImplementedError

    def predict_seconds(self, setting: Setting) -> float:
        """Return the rough seconds on one core to predict the prompts of the test; NaN where nobody knows."""
        raise NotImplementedError

    def gpu_seconds(self) -> float:
        """Return the rough seconds of the fit on one GPU; zero for what needs none."""
        return 0.0

    @property
    def longest_context(self) -> int | None:
        """The longest context that the learner is tested at; ``None`` for any."""
        return None


def refuse_real_labels(what: str, setting: Setting) -> None:
    """Raise `InputError` unless the labels of the prompts are +1 and -1, which ``what`` needs."""
    from iclab.errors import InputError

    if not setting.distribution.binary_labels:
        raise InputError(
            f"{what} is trained on the hinge loss, which needs labels +1 and -1, and those of "
            f"{type(setting.distribution).__name__} are real numbers; choose another learner or prompts"
        )


def support_of(what: str, setting: Setting) -> tuple[int, ...]:
    """Return the coordinates that labels depend on, which ``what`` is told; raise `InputError` where none are known."""
    from iclab.errors import InputError

    support = setting.distribution.label_support
    if support is None:
        why = (
            "prompts.rotation removes; leave the rotation unset or the learner out"
            if getattr(setting.prompts, "rotation", None) is not None
            else f"{type(setting.distribution).__name__} does not have; leave the learner out"
        )
        raise InputError(f"{what} is told a support among the coordinates, which {why}")
    return support
