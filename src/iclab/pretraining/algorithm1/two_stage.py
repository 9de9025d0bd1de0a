"""Algorithm 1 of arXiv 2510.12026: two-stage pretraining of the one-layer Mamba.

Stage I takes one gradient step on ``gamma`` with the head frozen; then the head's ``v`` and ``a1`` are redrawn;
Stage II solves a ridge regression for ``a2`` on fresh tasks. At test time nothing is fitted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.memory import check_memory
from iclab.models import OneLayerMamba, block_degrees
from iclab.parallel import map_in_order
from iclab.pretraining.algorithm1.readout import GramStatistics, RidgeFit, ridge
from iclab.pretraining.algorithm1.stage_one import GammaGradient, check_one_layer, gamma_gradient
from iclab.pretraining.record import Record
from iclab.prompts import CHUNK, PromptDistribution, Stream
from iclab.prompts.distribution import check_distribution, draw_checked
from iclab.prompts.stream import check_stream
from iclab.settings import TwoStageSettings
from iclab.settings.fields import with_changes

_PROBE_TASKS = 256


@dataclass(frozen=True, kw_only=True)
class TwoStageRecord(Record):
    """What pretraining saw.

    Attributes:
        settings: `TwoStageSettings` as JSON holds them, with ``stage2_examples`` as used and ``lambda2`` ``hold-out``
            where it was chosen.
        gradient: the Stage I gradient, with standard errors.
        gradient_norms: its norm by Hermite degree.
        gamma_start: the common value of ``gamma(0)``.
        head_scale: ``scale`` of the head.
        readout: the Stage II solution: weights, ``lambda2``, conditioning, hold-out errors.
        train_error: mean squared error on the Stage II tasks against noisy labels.
        label_square: mean square of those labels: the error of predicting zero.
    """

    gradient: GammaGradient
    gradient_norms: dict[int, float]
    gamma_start: float
    head_scale: float
    readout: RidgeFit
    train_error: float
    label_square: float

    @property
    def final_loss(self) -> float:
        """``train_error``."""
        return self.train_error


def two_stage(
    model: OneLayerMamba,
    prompts: PromptDistribution,
    settings: TwoStageSettings | None = None,
    *,
    stream: Stream,
    **changes: Any,
) -> tuple[OneLayerMamba, TwoStageRecord]:
    """Pretrain ``model`` in place by Algorithm 1 and return it with a record.

    The step uses ``lambda1 = 1/eta``, with which ``gamma(0)`` cancels and ``gamma* = -eta * gradient``; ``eta`` only
    sets a scale that the head's scale undoes, so ``gamma*`` is normalised to a largest entry of one.

    Args:
        model: its gate, embedding and width stay; ``gamma``, the head and the scale are set.
        prompts: the task distribution.
        settings: what the result depends on beside the model, the prompts and the stream; see `TwoStageSettings`.
        stream: of all randomness; the roles are ``stage1``, ``stage2``, ``head0``, ``head`` and ``probe``.
        changes: fields of `TwoStageSettings`, in place of ``settings`` or over them.

    Raises:
        InputError: for sizes out of range or a Stage I gradient that is zero or not finite.

    Reference: Algorithm 1 of arXiv 2510.12026.
    """
    check_one_layer(model)
    check_distribution(prompts)
    check_stream(stream)
    settings = with_changes(TwoStageSettings, settings, changes, "two_stage")
    begun, lengths, num_tasks = time.monotonic(), settings.stage2_lengths, settings.stage2_tasks
    check_memory(f"the ridge regression of a head of width {model.width}", 5 * 8.0 * model.width**2)
    start = start_gamma(model, prompts, stream, settings.num_examples, settings.start_scale)
    stage1 = stream.child("stage1")
    gradient = gamma_gradient(model, prompts, stage1, settings.stage1_tasks, settings.num_examples)
    set_gamma(model, gradient.mean, settings.degrees)

    model.draw_head(stream.child("head"))
    m, labels = _stage2_data(model, prompts, stream.child("stage2"), num_tasks, lengths, settings.stage2_queries)
    scale = float(torch.quantile(m.abs().double().flatten()[:1_000_000], settings.head_quantile))
    if not 0 < scale < float("inf"):
        raise InputError(
            "the state is zero on every Stage II task; expected labels that vary (check rho and b of the gate)"
        )
    model.scale.fill_(scale)
    held_out = max(1, round(settings.holdout_fraction * num_tasks)) if settings.lambda2 is None else 0
    fit = _statistics(model, m[held_out:], labels[held_out:])
    held = _statistics(model, m[:held_out], labels[:held_out]) if held_out else None
    solution = ridge(fit, held, settings.lambda2)
    with torch.no_grad():
        model.a2.copy_(solution.weights)
    everything = fit if held is None else fit + held
    degree = block_degrees(model.embedding, model.ambient_dim)
    record = TwoStageRecord(
        gradient=gradient,
        gradient_norms={k: float(gradient.mean[degree == k].norm()) for k in (0, 1, 2)},
        gamma_start=start,
        head_scale=scale,
        readout=solution,
        train_error=everything.error(solution.weights),
        label_square=everything.square / everything.rows,
        settings={
            **settings.asdict(),
            "stage2_examples": list(lengths),
            "lambda2": "hold-out" if settings.lambda2 is None else settings.lambda2,
        },
        seconds=time.monotonic() - begun,
    )
    return model, record


@torch.no_grad()
def set_gamma(model: OneLayerMamba, direction: Tensor, degrees: Sequence[int] = (0, 1, 2)) -> None:
    """Set ``gamma = -direction`` on the Hermite ``degrees``, zero elsewhere, scaled to a largest entry of one.

    Args:
        model: its ``gamma`` is set in place.
        direction: ``(D,)``, such as the mean of `gamma_gradient`.
        degrees: those that are kept.

    Raises:
        InputError: for unknown degrees, and a direction that is zero or not finite on them.
    """
    _check_degrees(degrees)
    degree = block_degrees(model.embedding, model.ambient_dim)
    kept = torch.isin(degree, torch.tensor(list(degrees)))
    step = torch.where(kept, -direction.double(), 0.0)
    size = float(step.abs().max())
    if not 0 < size < float("inf"):
        raise InputError(
            f"the Stage I gradient has largest entry {size} on degrees {list(degrees)}; expected a finite number > 0 "
            "(labels too heavy-tailed for float32, or a gate that is shut: raise rho or b)"
        )
    model.gamma.copy_(step / size)


@torch.no_grad()
def start_gamma(
    model: OneLayerMamba, prompts: PromptDistribution, stream: Stream, num_examples: int, start_scale: float
) -> float:
    """Draw the Stage I head and set a constant ``gamma(0)`` by ``start_scale`` (see `two_stage`).

    Args:
        model: its ``gamma``, head and scale are set in place.
        prompts: the task distribution.
        stream: the head is drawn from its role ``head0``, and the tasks that set the size from ``probe``.
        num_examples: N of these tasks.
        start_scale: as in `TwoStageSettings`.

    Returns:
        The value of ``gamma(0)``.

    Raises:
        InputError: where the state is zero on every task.
    """
    check_one_layer(model)
    check_distribution(prompts)
    check_stream(stream)
    model.draw_head(stream.child("head0"))
    model.a2.fill_(1 / model.width)
    model.scale.fill_(1.0)
    model.gamma.fill_(1.0)
    m, _ = _stage2_data(model, prompts, stream.child("probe"), _PROBE_TASKS, (num_examples,), 1)
    typical = m.abs().double().flatten()
    typical = typical[typical <= torch.quantile(typical, 0.95)]
    root = float(typical.square().mean().sqrt())
    if not 0 < root < float("inf"):
        raise InputError("the state is zero on every task; expected labels that vary (check rho and b of the gate)")
    value = start_scale / root
    model.gamma.fill_(value)
    return value


@torch.no_grad()
def _stage2_data(
    model: OneLayerMamba,
    prompts: PromptDistribution,
    stream: Stream,
    num_tasks: int,
    lengths: Sequence[int],
    num_queries: int,
) -> tuple[Tensor, Tensor]:
    """``M/N`` and labels, both ``(num_tasks, num_queries)``: one number a query is all that the head sees."""

    def one_chunk(chunk: int) -> tuple[Tensor, Tensor]:
        length = lengths[chunk % len(lengths)]
        batch = draw_checked(prompts, [stream.at(chunk)], length, num_queries, model.gamma.dtype)
        batch = batch[0 : min(CHUNK, num_tasks - chunk * CHUNK)]
        return model.read(model.features(batch), batch.queries.to(model.gamma)), batch.query_labels

    values, labels = zip(*map_in_order(one_chunk, -(-num_tasks // CHUNK)), strict=True)
    return torch.cat(values), torch.cat(labels)


@torch.no_grad()
def _statistics(model: OneLayerMamba, m: Tensor, labels: Tensor) -> GramStatistics:
    statistics = GramStatistics.zeros(model.width)
    rows = max(1, 4_000_000 // model.width)
    flat_m, flat_labels = m.flatten(), labels.flatten()
    for start in range(0, len(flat_m), rows):
        block = slice(start, start + rows)
        statistics = statistics.add(model.head_features(flat_m[block]).cpu(), flat_labels[block])
    return statistics


def _check_degrees(degrees: Sequence[int]) -> None:
    if not degrees or not set(degrees) <= {0, 1, 2}:
        raise InputError(f"degrees are {list(degrees)}; expected some of 0, 1 and 2")
