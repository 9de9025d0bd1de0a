"""Stage I of Algorithm 1 (arXiv 2510.12026): one gradient step on ``gamma`` with the head frozen, streamed over tasks.

Per task, with ``h = <S, gamma * phi(x)>`` and ``f = sum_k a2_k relu(v_k h + a1_k)``, ``(f - y)^2 / 2`` has gradient
``(f - y) (sum_k a2_k v_k 1[v_k h + a1_k > 0]) S * phi(x)``. It is formed block by block as products of ``S`` with the
query; neither ``phi`` nor autograd is involved, and memory does not grow with the number of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from iclab.errors import InputError, check_integer
from iclab.models import OneLayerMamba, StateBlocks
from iclab.models.one_layer.embedding import pair_indices
from iclab.parallel import map_in_order
from iclab.prompts import CHUNK, PromptDistribution, Prompts, Stream
from iclab.prompts.arguments import described
from iclab.prompts.distribution import check_distribution, draw_checked
from iclab.prompts.stream import check_stream
from iclab.scratch import Scratch

_GROUP = 8  # chunks whose small products are taken together
_CACHE = 1 << 24  # bytes of inputs drawn at once, which the last cache still holds when they are read again
_inputs = Scratch()


@dataclass(frozen=True)
class GammaGradient:
    """Mean gradient of ``gamma`` over tasks.

    Attributes:
        mean: ``(D,)`` float64.
        standard_error: ``(D,)`` float64, from the spread over groups of 64 tasks; 0 for a single group.
        num_tasks: tasks averaged.
    """

    mean: Tensor
    standard_error: Tensor
    num_tasks: int


@torch.no_grad()
def gamma_gradient(
    model: OneLayerMamba,
    prompts: PromptDistribution,
    stream: Stream,
    num_tasks: int,
    num_examples: int,
    *,
    num_queries: int = 1,
) -> GammaGradient:
    """Compute the mean gradient of the squared loss in ``gamma`` at the model's present weights, over fresh tasks.

    Args:
        model: left as it is.
        prompts: the task distribution.
        stream: of the tasks.
        num_tasks: prompts to average over.
        num_examples, num_queries: N and Q of each prompt, at least 1.

    Raises:
        InputError: for sizes out of range.

    Reference: Stage I of Algorithm 1, arXiv 2510.12026.
    """

    def one_group(group: int) -> Tensor:
        parts = []
        dtype = model.gamma.dtype
        last = min((group + 1) * _GROUP, num_chunks)
        for first in range(group * _GROUP, last, at_once):
            chunks = range(first, min(first + at_once, last))
            buffer = _inputs.take((len(chunks) * CHUNK, length, prompts.ambient_dim), dtype)
            generators = [stream.at(chunk) for chunk in chunks]
            batch = draw_checked(prompts, generators, num_examples, num_queries, dtype, buffer)
            if num_tasks < chunks.stop * CHUNK:
                batch = batch[0 : num_tasks - first * CHUNK]
            state = model.features(batch)
            parts.append((state, batch.queries.clone(), batch.query_labels.clone()))  # the buffer is used again
        states, queries, labels = zip(*parts, strict=True)
        return _gradient(model, StateBlocks.cat(states), torch.cat(queries), torch.cat(labels)).double().cpu()

    check_one_layer(model)
    check_distribution(prompts)
    check_stream(stream)
    num_tasks = check_integer("num_tasks", num_tasks, 1)
    check_integer("num_examples", num_examples, 1)
    check_integer("num_queries", num_queries, 1)
    length = num_examples + num_queries
    size = CHUNK * length * prompts.ambient_dim * model.gamma.dtype.itemsize
    at_once = max(1, min(prompts.chunks_at_once, _GROUP, _CACHE // size))
    num_chunks = -(-num_tasks // CHUNK)
    num_groups = -(-num_chunks // _GROUP)
    total = torch.zeros(model.gamma.numel(), dtype=torch.float64)
    squares = torch.zeros_like(total)
    for gradient in map_in_order(one_group, num_groups):
        total += gradient
        squares += gradient**2
    mean = total / num_tasks
    # The groups are independent, so the spread of their sums estimates the variance of the total.
    spread = (squares - num_groups * (total / num_groups) ** 2).clamp(min=0) * num_groups / max(num_groups - 1, 1)
    return GammaGradient(mean, spread.sqrt() / num_tasks, num_tasks)


def check_one_layer(model: object) -> OneLayerMamba:
    """Return ``model`` if it is a `OneLayerMamba`; raise `InputError` otherwise."""
    if not isinstance(model, OneLayerMamba):
        raise InputError(f"the model is {described(model)}; expected a OneLayerMamba, such as OneLayerMamba(16, 64)")
    return model


@torch.no_grad()
def task_gradient(model: OneLayerMamba, batch: Prompts) -> Tensor:
    """``(D,)``: sum over the prompts (mean over their queries) of the gradient of ``(f - y)^2 / 2`` in ``gamma``."""
    return _gradient(model, model.features(batch), batch.queries, batch.query_labels)


def _gradient(model: OneLayerMamba, state: StateBlocks, queries: Tensor, labels: Tensor) -> Tensor:
    queries = queries.to(model.gamma)
    h = model.read(state, queries)
    before = (h / model.scale)[..., None] * model.v + model.a1
    slopes = (before > 0).to(h.dtype) @ (model.a2 * model.v) / model.scale
    outputs = torch.relu(before) @ model.a2
    coefficient = (outputs - labels.to(h)) * slopes / max(queries.shape[1], 1)
    return _contract(model, state, queries, coefficient)


def _contract(model: OneLayerMamba, state: StateBlocks, queries: Tensor, coefficient: Tensor) -> Tensor:
    """``sum_{b,q} coefficient_bq S_b * phi(x_bq)`` in the order of the embedding."""
    weighted = torch.einsum("bq,bqd->bd", coefficient, queries)
    first = (state.degree1 * weighted).sum(0)
    if model.embedding == "identity":
        return first
    total = coefficient.sum(1)
    outer = torch.einsum("bq,bqi,bqj->bij", coefficient, queries, queries)
    outer.diagonal(dim1=1, dim2=2).sub_(total[:, None])
    matrix = (state.degree2 * outer).sum(0) * 2**-0.5
    rows, columns = pair_indices(model.ambient_dim)
    zeroth = (state.degree0 * total).sum()
    return torch.cat([zeroth[None], first, matrix.diagonal(), 2 * matrix[rows, columns]])
