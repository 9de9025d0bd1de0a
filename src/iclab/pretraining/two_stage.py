"""Algorithm 1 of arXiv 2510.12026: two-stage pretraining of the one-layer Mamba.

Stage I takes one gradient step on ``gamma`` with the head frozen; then the head's ``v`` and ``a1`` are redrawn;
Stage II solves a ridge regression for ``a2`` on fresh tasks. At test time nothing is fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from iclab.errors import InputError, check_integer, check_positive
from iclab.memory import check_memory
from iclab.models import OneLayerMamba, block_degrees
from iclab.parallel import map_in_order
from iclab.pretraining.readout import GramStatistics, RidgeFit, ridge
from iclab.pretraining.stage_one import GammaGradient, check_one_layer, gamma_gradient
from iclab.prompts import CHUNK, PromptDistribution, Stream
from iclab.prompts.distribution import check_distribution, draw_checked
from iclab.prompts.stream import check_stream

_PROBE_TASKS = 256


@dataclass(frozen=True)
class TwoStageRecord:
    """What pretraining saw.

    Attributes:
        gradient: the Stage I gradient, with standard errors.
        gradient_norms: its norm by Hermite degree.
        gamma_start: the common value of ``gamma(0)``.
        head_scale: ``scale`` of the head.
        readout: the Stage II solution: weights, ``lambda2``, conditioning, hold-out errors.
        train_error: mean squared error on the Stage II tasks against noisy labels.
        label_square: mean square of those labels: the error of predicting zero.
        settings: every argument, resolved.
    """

    gradient: GammaGradient
    gradient_norms: dict[int, float]
    gamma_start: float
    head_scale: float
    readout: RidgeFit
    train_error: float
    label_square: float
    settings: dict[str, object] = field(default_factory=dict)


def two_stage(
    model: OneLayerMamba,
    prompts: PromptDistribution,
    *,
    stream: Stream,
    num_examples: int,
    stage1_tasks: int,
    stage2_tasks: int,
    stage2_examples: int | Sequence[int] | None = None,
    stage2_queries: int = 8,
    start_scale: float = 0.2,
    lambda2: float | None = None,
    holdout_fraction: float = 0.2,
    head_quantile: float = 0.95,
    degrees: Sequence[int] = (0, 1, 2),
) -> tuple[OneLayerMamba, TwoStageRecord]:
    """Pretrain ``model`` in place by Algorithm 1 and return it with a record.

    Args:
        model: its gate, embedding and width stay; ``gamma``, the head and the scale are set.
        prompts: the task distribution.
        stream: of all randomness; the roles are ``stage1``, ``stage2``, ``head0``, ``head`` and ``probe``.
        num_examples: ``N_pt``, the context length of Stage I.
        stage1_tasks, stage2_tasks: ``T1`` and ``T2``.
        stage2_examples: ``N_2``, the context length of Stage II; ``None`` takes ``num_examples`` (the paper's choice is
            not known to us). Several lengths are used in turn, one after another chunk of tasks.
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
        degrees: Hermite degrees of ``gamma`` that are kept after Stage I. The paper keeps all.

    The step uses ``lambda1 = 1/eta``, with which ``gamma(0)`` cancels and ``gamma* = -eta * gradient``; ``eta`` only
    sets a scale that the head's scale undoes, so ``gamma*`` is normalised to a largest entry of one.

    Raises:
        InputError: for sizes out of range or a Stage I gradient that is zero or not finite.
    """
    check_one_layer(model)
    check_distribution(prompts)
    check_stream(stream)
    check_integer("stage1_tasks", stage1_tasks, 1)
    check_integer("stage2_tasks", stage2_tasks, 1)
    check_integer("num_examples", num_examples, 1)
    check_integer("stage2_queries", stage2_queries, 1)
    check_positive("start_scale", start_scale)
    lengths = _lengths(stage2_examples, num_examples)
    if not 0 < holdout_fraction < 1 or not 0 < head_quantile <= 1:
        raise InputError(
            f"holdout_fraction is {holdout_fraction} and head_quantile {head_quantile}; "
            "expected numbers between 0 and 1"
        )
    if lambda2 is not None:
        check_positive("lambda2", lambda2)
    _check_degrees(degrees)
    check_memory(f"the ridge regression of a head of width {model.width}", 5 * 8.0 * model.width**2)
    start = start_gamma(model, prompts, stream, num_examples, start_scale)
    gradient = gamma_gradient(model, prompts, stream.child("stage1"), stage1_tasks, num_examples)
    set_gamma(model, gradient.mean, degrees)

    model.draw_head(stream.child("head"))
    m, labels = _stage2_data(model, prompts, stream.child("stage2"), stage2_tasks, lengths, stage2_queries)
    scale = float(torch.quantile(m.abs().double().flatten()[:1_000_000], head_quantile))
    if not 0 < scale < float("inf"):
        raise InputError(
            "the state is zero on every Stage II task; expected labels that vary (check rho and b of the gate)"
        )
    model.scale.fill_(scale)
    held_out = max(1, round(holdout_fraction * stage2_tasks)) if lambda2 is None else 0
    fit = _statistics(model, m[held_out:], labels[held_out:])
    held = _statistics(model, m[:held_out], labels[:held_out]) if held_out else None
    solution = ridge(fit, held, lambda2)
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
            "num_examples": num_examples,
            "stage1_tasks": stage1_tasks,
            "stage2_tasks": stage2_tasks,
            "stage2_examples": list(lengths),
            "stage2_queries": stage2_queries,
            "start_scale": start_scale,
            "lambda2": "hold-out" if lambda2 is None else lambda2,
            "holdout_fraction": holdout_fraction,
            "head_quantile": head_quantile,
            "degrees": list(degrees),
        },
    )
    return model, record


@torch.no_grad()
def set_gamma(model: OneLayerMamba, direction: Tensor, degrees: Sequence[int] = (0, 1, 2)) -> None:
    """``gamma = -direction`` on the Hermite ``degrees``, zero elsewhere, scaled to a largest entry of one."""
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
    """Draw the Stage I head and set a constant ``gamma(0)`` by ``start_scale`` (see `two_stage`); return its value."""
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


def _lengths(stage2_examples: int | Sequence[int] | None, num_examples: int) -> tuple[int, ...]:
    if stage2_examples is None:
        return (num_examples,)
    given = stage2_examples if isinstance(stage2_examples, Iterable) else [stage2_examples]
    lengths = tuple(check_integer("stage2_examples", n, 1) for n in given)
    if not lengths:
        raise InputError("stage2_examples is empty; expected at least one context length")
    return lengths
