"""Evaluation on fixed prompts while a model is trained."""

from __future__ import annotations

import math

import torch
from torch import nn

from iclab.errors import InputError
from iclab.models.evaluating import evaluating
from iclab.pretraining.trainer.loss import labels_of, squared_errors
from iclab.prompts import PromptDistribution, Prompts, Stream
from iclab.prompts.distribution import sample_checked
from iclab.settings.train import TrainSettings


class FixedEvaluation:
    """The loss on prompts that no step is trained on, of the final distribution at the final length.

    Args:
        prompts: the distribution that training ends with.
        settings: of the training.
        stream: of the training; the prompts come from its role ``evaluation``.
        device, dtype: of the model.
        rows: prompts at once.
    """

    def __init__(
        self,
        prompts: PromptDistribution,
        settings: TrainSettings,
        stream: Stream,
        device: torch.device,
        dtype: torch.dtype,
        rows: int,
    ) -> None:
        batch = sample_checked(
            prompts,
            stream.child("evaluation"),
            settings.evaluation_prompts,
            settings.num_examples,
            settings.drawn_queries,
            dtype=dtype,
        )
        self._loss_on, self._rows = settings.loss_on, rows
        self._prompts: Prompts = batch.to(device)
        self.zero_line = float(labels_of(batch, settings.loss_on).double().square().mean())

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> dict[str, float]:
        """``loss``, as in training, and ``last``, the error at the last prefix or the last query; without autocast.

        Raises:
            InputError: where the loss is not finite.
        """
        predict = getattr(model, self._loss_on)
        with evaluating(model):
            errors = torch.cat(
                [
                    squared_errors(predict(part), part, self._loss_on)
                    for part in (
                        self._prompts[start : start + self._rows]
                        for start in range(0, self._prompts.batch_size, self._rows)
                    )
                ]
            )
        values = {"loss": float(errors.mean()), "last": float(errors[:, -1].mean())}
        if not all(map(math.isfinite, values.values())):
            raise InputError(
                f"the loss on the evaluation prompts is {values['loss']} while that of training is finite; lower the "
                "learning rate, or scale inputs and labels"
            )
        return values
