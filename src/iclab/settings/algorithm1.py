"""Settings of the two ways to pretrain the one-layer Mamba: `iclab.pretraining.two_stage` and `joint`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from iclab.errors import InputError
from iclab.settings.fields import Count, Limits, Positive, as_json, check_fields

_StartScale = Annotated[float, Limits(ge=1e-6, le=1e6)]


@dataclass(frozen=True, kw_only=True)
class TwoStageSettings:
    """Everything that the result of `iclab.pretraining.two_stage` depends on, beside the model, prompts and stream.

    Attributes:
        num_examples: ``N_pt``, the context length of Stage I.
        stage1_tasks: ``T1``, tasks of Stage I.
        stage2_tasks: ``T2``, tasks of Stage II.
        stage2_examples: ``N_2``, the context length of Stage II, or several lengths used in turn, one after another
            chunk of tasks; ``None`` takes ``num_examples`` (the paper's choice is not known to us).
        stage2_queries: queries of each Stage II task. The paper has one; more use the same context again, which is the
            costly part, and estimate the same population loss.
        start_scale: root mean square, over tasks, of ``h = <S, gamma(0) * phi(x)>`` at the start, with the largest 5 %
            of ``|h|`` left out, since it has no variance for heavy-tailed labels. It sets ``gamma(0)``, which is
            constant over coordinates. The paper's value is open; the head's biases live in [-1, 1], so order one makes
            its ReLUs bend where ``h`` lies.
        lambda2: the Stage II penalty; ``None`` chooses it on held-out tasks.
        holdout_fraction: share of the Stage II tasks used for that choice.
        head_quantile: the head's scale is this quantile of ``|M/N|`` over the Stage II data, so that that share of the
            data lies within reach of the biases. Part of the model: it is not refitted at test time.
        degrees: Hermite degrees of ``gamma`` that are kept after Stage I, each once. The paper keeps all.

    Raises:
        InputError: for values out of range.
    """

    num_examples: Count
    stage1_tasks: Count
    stage2_tasks: Count
    stage2_examples: tuple[Count, ...] | None = None
    stage2_queries: Count = 8
    start_scale: _StartScale = 0.2
    lambda2: Positive | None = None
    holdout_fraction: Annotated[float, Limits(gt=0, lt=1)] = 0.2
    head_quantile: Annotated[float, Limits(gt=0, le=1)] = 0.95
    degrees: tuple[Literal[0, 1, 2], ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        if self.stage2_examples is not None and not isinstance(self.stage2_examples, Iterable):
            object.__setattr__(self, "stage2_examples", (self.stage2_examples,))
        check_fields(self)
        if len(set(self.degrees)) < len(self.degrees):
            raise InputError(f"degrees is {list(self.degrees)}; expected some of 0, 1, 2, each once")

    @property
    def stage2_lengths(self) -> tuple[int, ...]:
        """The context lengths of Stage II."""
        return self.stage2_examples or (self.num_examples,)

    def asdict(self) -> dict[str, Any]:
        """Return the settings as JSON holds them."""
        return as_json(self)


@dataclass(frozen=True, kw_only=True)
class JointSettings:
    """Everything that the result of `iclab.pretraining.joint` depends on, beside the model, prompts and stream.

    Attributes:
        num_examples: N, the context length.
        steps: steps of Adam.
        batch_size: tasks of a step; a multiple of 8, the unit in which prompts are drawn.
        num_queries: Q, queries of a task.
        learning_rate: of Adam (other settings at their defaults), decayed to zero by a cosine.
        start_scale: as in `TwoStageSettings`: the typical size of ``M/N`` at the start.

    Raises:
        InputError: for values out of range.
    """

    num_examples: Count
    steps: Count
    batch_size: Annotated[int, Limits(ge=8, multiple_of=8)] = 64
    num_queries: Count = 8
    learning_rate: Positive = 3e-3
    start_scale: _StartScale = 0.2

    def __post_init__(self) -> None:
        check_fields(self)

    def asdict(self) -> dict[str, Any]:
        """Return the settings as JSON holds them."""
        return as_json(self)
