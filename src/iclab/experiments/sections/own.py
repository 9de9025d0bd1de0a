"""A user's own prompt family and own learner, by name: configuration is all that an experiment needs of them.

A name ``module:object`` is imported as that of an experiment's kind is: from the folder of the YAML file, or from
wherever Python looks. The version of its code counts with that of the kind: a changed family computes its cells anew.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from iclab.config.loading import load_object, split_name
from iclab.errors import InputError
from iclab.experiments.cost import Work
from iclab.experiments.sections.base import LearnerSection, PromptsSection, Setting

if TYPE_CHECKING:
    from torch import Tensor

    from iclab.estimators.base import Learner
    from iclab.evaluation.measurement import Measurement
    from iclab.prompts import PromptDistribution, Stream

_PASSES = 10.0  # over the bytes of a drawn prompt
_PROBED = 64  # prompts whose labels are looked at


class OwnPrompts(PromptsSection):
    """A class derived from `iclab.prompts.PromptDistribution`.

    Attributes:
        family: its name, ``module:Class``.
        arguments: what it is built with; ``seed`` is that of the cell where the class takes one and none is given here.
    """

    kind: Literal["own"] = "own"
    family: str
    arguments: dict[str, Any] = Field(default_factory=dict)

    def build(self, seed: int) -> PromptDistribution:
        from iclab.prompts.distribution import check_distribution

        built = _built("prompts.family", self.family, self.arguments, seed)
        return check_distribution(built, f"prompts.family {self.family!r}")

    def typical_labels(self, seed: int) -> Tensor:
        from iclab.prompts import Stream
        from iclab.prompts.distribution import sample_checked

        with _named_errors(f"prompts.family {self.family!r}", "cannot draw prompts"):
            return sample_checked(self.build(seed), Stream(seed).child("labels"), _PROBED, 8, 1).example_labels

    def draw_seconds(self, seed: int, num_prompts: float, length: float) -> float:
        drawn = num_prompts * self.build(seed).prompt_bytes(math.ceil(length), 0)
        return Work(bytes=_PASSES * drawn).seconds()

    def own_modules(self) -> frozenset[str]:
        return _module_of(self.family)


class OwnLearner(LearnerSection):
    """Anything with ``predict(prompts) -> (B, Q)``, such as a class derived from `iclab.estimators.Estimator`.

    Where what ``learner`` names returns an object with a method ``pretrain(prompts, stream)``, that is called first,
    with the prompt distribution and a `Stream`. PyTorch's own random numbers follow the seed of the cell meanwhile.

    Attributes:
        learner: a class or function, ``module:object``.
        arguments: what it is called with; ``seed`` as in `OwnPrompts`.
        max_examples: the longest context that it is tested at; ``null`` for any.
    """

    kind: Literal["own"] = "own"
    learner: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    max_examples: int | None = Field(None, ge=1)

    def fit(self, name: str, setting: Setting) -> tuple[Learner, list[Measurement]]:
        import torch

        del name
        stream = setting.stream.child("own learner")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_seed(stream))
            learner = self._make("learner", setting.seed)
            pretrain = getattr(learner, "pretrain", None)
            if callable(pretrain):
                pretrain(setting.distribution, stream.child("pretraining"))
        return learner, []

    def check(self, key: str, setting: Setting) -> None:
        self._make(f"{key}.learner", setting.seed)

    def _make(self, key: str, seed: int) -> Learner:
        learner = _built(key, self.learner, self.arguments, seed)
        if not callable(getattr(learner, "predict", None)) or isinstance(learner, type):
            raise InputError(
                f"{key} {self.learner!r} gives an object of type {type(learner).__name__}; expected one with a method "
                "predict(prompts)"
            )
        return learner

    def fit_seconds(self, setting: Setting) -> float:
        del setting
        return math.nan

    def predict_seconds(self, setting: Setting) -> float:
        del setting
        return math.nan

    @property
    def longest_context(self) -> int | None:
        return self.max_examples

    def own_modules(self) -> frozenset[str]:
        return _module_of(self.learner)


def _built(key: str, name: str, arguments: dict[str, Any], seed: int) -> Any:
    """Call the object called ``name``.

    Raises:
        InputError: where there is none, it does not take the arguments, or it raises anything.
    """
    make = load_object(key, name)
    if not callable(make):
        raise InputError(f"{key} {name!r} is {type(make).__name__}; expected a class or a function")
    try:
        signature = inspect.signature(make)
        if "seed" in signature.parameters and "seed" not in arguments:
            arguments = {**arguments, "seed": seed}
        signature.bind(**arguments)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{key} {name!r} does not take these arguments ({error}); name them under arguments, and let "
            "the call return the object that is wanted"
        ) from None
    with _named_errors(f"{key} {name!r}", "cannot be built"):
        return make(**arguments)


@contextmanager
def _named_errors(what: str, failure: str) -> Iterator[None]:
    """Raise what a user's own code raises as an `InputError` that says of what; such code may raise anything."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from None
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise InputError(f"{what} {failure} ({reason}); fix its arguments or its code") from error


def _module_of(name: str) -> frozenset[str]:
    parts = split_name(name)
    return frozenset() if parts is None else frozenset([parts[0]])


def _seed(stream: Stream) -> int:
    import torch

    return int(torch.randint(2**62, (), generator=stream.child("initial").at(0)))
