"""Joint pretraining of the one-layer Mamba by Adam: the alternative to the two stages that practice would choose."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from iclab.errors import InputError, check_integer, check_positive
from iclab.models import OneLayerMamba, StateBlocks
from iclab.parallel import map_in_order
from iclab.pretraining.stage_one import check_one_layer
from iclab.pretraining.two_stage import start_gamma
from iclab.prompts import CHUNK, PromptDistribution, Stream
from iclab.prompts.distribution import check_distribution, draw_checked
from iclab.prompts.stream import check_stream


@dataclass(frozen=True)
class JointRecord:
    """What joint training saw.

    Attributes:
        losses: mean squared error against noisy labels, averaged over ``record_every`` steps.
        record_every: steps per entry of ``losses``.
        settings: every argument.
    """

    losses: tuple[float, ...]
    record_every: int
    settings: dict[str, object]


def joint(
    model: OneLayerMamba,
    prompts: PromptDistribution,
    *,
    stream: Stream,
    num_examples: int,
    steps: int,
    batch_size: int = 64,
    num_queries: int = 8,
    learning_rate: float = 3e-3,
    start_scale: float = 0.2,
) -> tuple[OneLayerMamba, JointRecord]:
    """Fit ``gamma``, ``a1`` and ``a2`` together by Adam on fresh tasks, in place.

    Args:
        model: its gate, embedding and width stay. The state ``S`` depends on no fitted weight, so it is computed
            without gradients and a step costs about as much as drawing its prompts.
        prompts: the task distribution.
        stream: of all randomness.
        num_examples: context length.
        steps, batch_size, num_queries: Adam steps, tasks a step and queries a task.
        learning_rate: of Adam (other settings at their defaults), decayed to zero by a cosine.
        start_scale: as in `two_stage`: the typical size of ``M/N`` at the start.

    Raises:
        InputError: for sizes out of range.
        FloatingPointError: when the loss stops being finite, with the step and the learning rate.
    """
    check_one_layer(model)
    check_distribution(prompts)
    check_stream(stream)
    check_integer("steps", steps, 1)
    check_integer("batch_size", batch_size, 1)
    check_integer("num_examples", num_examples, 1)
    check_integer("num_queries", num_queries, 1)
    check_positive("learning_rate", learning_rate)
    check_positive("start_scale", start_scale)
    if batch_size % CHUNK:
        raise InputError(
            f"batch_size is {batch_size}; expected a multiple of {CHUNK}, the unit in which prompts are drawn"
        )
    start_gamma(model, prompts, stream, num_examples, start_scale)
    model.draw_head(stream.child("head"))
    biases = torch.nn.Parameter(model.a1.clone())
    optimiser = torch.optim.Adam([model.gamma, model.a2, biases], lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.5 * (1 + math.cos(math.pi * step / steps)))
    data, chunks = stream.child("joint"), batch_size // CHUNK
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
            raise FloatingPointError(
                f"the loss is {value} at step {step} with learning rate {schedule.get_last_lr()[0]:.3g}"
            )
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
    settings: dict[str, object] = {
        "num_examples": num_examples,
        "steps": steps,
        "batch_size": batch_size,
        "num_queries": num_queries,
        "learning_rate": learning_rate,
        "start_scale": start_scale,
    }
    return model, JointRecord(tuple(losses), record_every, settings)
