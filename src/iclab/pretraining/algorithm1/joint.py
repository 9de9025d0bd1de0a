"""Joint pretraining of the one-layer Mamba by Adam: the alternative to the two stages that practice would choose."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import torch

from iclab.models import OneLayerMamba, StateBlocks
from iclab.parallel import map_in_order
from iclab.pretraining.algorithm1.stage_one import check_one_layer
from iclab.pretraining.algorithm1.two_stage import start_gamma
from iclab.pretraining.failures import NonFiniteLossError
from iclab.pretraining.record import Record
from iclab.prompts import CHUNK, PromptDistribution, Stream
from iclab.prompts.distribution import check_distribution, draw_checked
from iclab.prompts.stream import check_stream
from iclab.settings import JointSettings
from iclab.settings.fields import with_changes


@dataclass(frozen=True, kw_only=True)
class JointRecord(Record):
    """What joint training saw.

    Attributes:
        settings: `JointSettings` as JSON holds them.
        losses: mean squared error against noisy labels, averaged over ``record_every`` steps.
        record_every: steps per entry of ``losses``.
        steps: steps taken.
    """

    losses: tuple[float, ...]
    record_every: int
    steps: int

    @property
    def final_loss(self) -> float:
        """The last of ``losses``."""
        return self.losses[-1]


def joint(
    model: OneLayerMamba,
    prompts: PromptDistribution,
    settings: JointSettings | None = None,
    *,
    stream: Stream,
    **changes: Any,
) -> tuple[OneLayerMamba, JointRecord]:
    """Fit ``gamma``, ``a1`` and ``a2`` together by Adam on fresh tasks, in place.

    Args:
        model: its gate, embedding and width stay. The state ``S`` depends on no fitted weight, so it is computed
            without gradients and a step costs about as much as drawing its prompts.
        prompts: the task distribution.
        settings: what the result depends on beside the model, the prompts and the stream; see `JointSettings`.
        stream: of all randomness.
        changes: fields of `JointSettings`, in place of ``settings`` or over them.

    Raises:
        InputError: for sizes out of range.
        NonFiniteLossError: where the loss stops being finite, with the step and the learning rate.
    """
    check_one_layer(model)
    check_distribution(prompts)
    check_stream(stream)
    settings = with_changes(JointSettings, settings, changes, "joint")
    steps, num_examples, num_queries = settings.steps, settings.num_examples, settings.num_queries
    begun = time.monotonic()
    start_gamma(model, prompts, stream, num_examples, settings.start_scale)
    model.draw_head(stream.child("head"))
    biases = torch.nn.Parameter(model.a1.clone())
    optimiser = torch.optim.Adam([model.gamma, model.a2, biases], lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.5 * (1 + math.cos(math.pi * step / steps)))
    data, chunks = stream.child("joint"), settings.batch_size // CHUNK
    record_every = max(1, steps // 50)
    losses, running = [], 0.0
    for step in range(steps):

        def draw(chunk: int, step: int = step) -> tuple[StateBlocks, torch.Tensor, torch.Tensor]:
            with torch.no_grad():  # the mode is per thread
                generator = data.at(step * chunks + chunk)
                batch = draw_checked(prompts, [generator], num_examples, num_queries, model.gamma.dtype)
                return model.features(batch), batch.queries.to(model.gamma), batch.query_labels.to(model.gamma)

        states, queries, labels = zip(*map_in_order(draw, chunks), strict=True)
        m = model.read(StateBlocks.cat(states), torch.cat(queries))
        outputs = torch.relu((m / model.scale)[..., None] * model.v + biases) @ model.a2
        loss = ((outputs - torch.cat(labels)) ** 2).mean()
        value = float(loss.detach())
        if not math.isfinite(value):
            slopes = torch.autograd.grad(loss, [model.gamma, model.a2, biases])
            norm = float(torch.nn.utils.get_total_norm(slopes))
            raise NonFiniteLossError(step + 1, value, norm, float(schedule.get_last_lr()[0]), None)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        running += value
        if (step + 1) % record_every == 0:
            losses.append(running / record_every)
            running = 0.0
    with torch.no_grad():
        model.a1.copy_(biases)
    return model, JointRecord(
        settings=settings.asdict(),
        seconds=time.monotonic() - begun,
        losses=tuple(losses),
        record_every=record_every,
        steps=steps,
    )
