"""The contract of everything that predicts from a prompt."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from iclab.prompts import Prompts


@runtime_checkable
class Learner(Protocol):
    """Anything that answers the queries of a prompt. Pretrained models and estimators alike."""

    @property
    def name(self) -> str:
        """How legends and results call it, with the settings that matter."""
        ...

    def predict(self, prompts: Prompts) -> Tensor:
        """Predict at the queries from all N examples, ``(B, Q)``; zero at N = 0 unless the model knows better."""
        ...


@runtime_checkable
class CausalLearner(Learner, Protocol):
    """A learner that also predicts along the prompt."""

    def predict_prefixes(self, prompts: Prompts) -> Tensor:
        """Predict each example from the examples before it.

        Returns:
            ``(B, N)``, where column k is the prediction of example k (0-based) from the k examples before it.
        """
        ...
