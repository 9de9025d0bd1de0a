"""Everything of a training that its result depends on, beside the model and the prompts."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields

from iclab.errors import InputError, check_integer, check_positive
from iclab.pretraining.curriculum import Curriculum
from iclab.pretraining.schedule import LearningRate
from iclab.prompts import CHUNK, Stream
from iclab.prompts.stream import check_stream

OPTIMISERS = ("adam", "adamw")
LOSSES = ("prefixes", "queries")
AUTOCASTS = (None, "bfloat16")


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The arguments of `train` that a resumed training must share; there they are explained.

    Raises:
        InputError: for values out of range and unknown names.
    """

    stream: Stream
    num_examples: int
    steps: int
    batch_size: int
    learning_rate: float
    optimiser: str
    betas: tuple[float, float]
    epsilon: float
    weight_decay: float
    warmup_steps: int
    schedule: str
    final_scale: float
    clip_norm: float | None
    loss_on: str
    num_queries: int
    curriculum: Curriculum
    autocast: str | None
    average: float | None
    evaluate_every: int | None
    evaluation_prompts: int
    log_every: int

    def __post_init__(self) -> None:
        check_stream(self.stream)
        if not isinstance(self.curriculum, Curriculum):
            raise InputError(f"curriculum is {self.curriculum!r}; expected a Curriculum or None")
        for name in ("num_examples", "steps", "batch_size", "num_queries", "evaluation_prompts", "log_every"):
            check_integer(name, getattr(self, name), 1)
        if self.batch_size % CHUNK:
            raise InputError(
                f"batch_size is {self.batch_size}; expected a multiple of {CHUNK}, the unit in which prompts are drawn"
            )
        if self.evaluate_every is not None:
            check_integer("evaluate_every", self.evaluate_every, 1)
        _check_name("optimiser", self.optimiser, OPTIMISERS)
        _check_name("loss_on", self.loss_on, LOSSES)
        _check_name("autocast", self.autocast, AUTOCASTS)
        pair = isinstance(self.betas, tuple) and len(self.betas) == 2
        if not pair or not all(_is_number(beta) and 0 <= beta < 1 for beta in self.betas):
            raise InputError(f"betas are {self.betas!r}; expected two numbers in [0, 1)")
        check_positive("epsilon", self.epsilon)
        if not _is_number(self.weight_decay) or not 0 <= self.weight_decay < math.inf:
            raise InputError(f"weight_decay is {self.weight_decay!r}; expected a finite number >= 0")
        if self.clip_norm is not None:
            check_positive("clip_norm", self.clip_norm)
        if self.average is not None and not (_is_number(self.average) and 0 < self.average < 1):
            raise InputError(f"average is {self.average!r}; expected a decay between 0 and 1, such as 0.999, or None")
        self.rate.at(0)

    @property
    def rate(self) -> LearningRate:
        """The learning rate of each step."""
        return LearningRate(self.learning_rate, self.steps, self.warmup_steps, self.schedule, self.final_scale)

    @property
    def drawn_queries(self) -> int:
        """Queries of each prompt: none where the loss is on prefixes."""
        return self.num_queries if self.loss_on == "queries" else 0

    def asdict(self) -> dict[str, object]:
        """As JSON holds it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {"stream": asdict(self.stream), "curriculum": self.curriculum.asdict()}
        return json.loads(json.dumps(values))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_name(what: str, value: object, names: tuple[str | None, ...]) -> None:
    if value not in names:
        raise InputError(f"{what} is {value!r}; expected one of {', '.join(map(str, names))}")
