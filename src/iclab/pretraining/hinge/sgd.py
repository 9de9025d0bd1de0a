"""`hinge_sgd`: plain stochastic gradient descent on the hinge loss, a fresh batch at every step (arXiv 2510.00399).

One-layer models take the gradients that `iclab.pretraining.hinge.gradient` writes out; others take autograd's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.memory import memory_advice
from iclab.pretraining.device import input_dim, trained_dtype
from iclab.pretraining.failures import NonFiniteLossError
from iclab.pretraining.hinge.gradient import ANALYTIC, hinge_gradient
from iclab.pretraining.hinge.record import HingeRecord, HingeWindow
from iclab.pretraining.record import TrainProgress
from iclab.prompts import PromptDistribution, Prompts, Stream
from iclab.prompts.distribution import check_distribution, sample_checked
from iclab.prompts.stream import check_stream
from iclab.settings.fields import with_changes
from iclab.settings.hinge import HingeSettings

Model = TypeVar("Model", bound=nn.Module)
Gradients = dict[nn.Parameter, Tensor]
_AT_ONCE = 1 << 21  # numbers of the inputs that are drawn together: a batch alone would spend its time on small calls


def hinge_sgd(
    model: Model,
    prompts: PromptDistribution,
    settings: HingeSettings | None = None,
    *,
    stream: Stream,
    progress: Callable[[TrainProgress], None] | None = None,
    **changes: Any,
) -> tuple[Model, HingeRecord]:
    """Pretrain ``model`` in place by plain SGD on ``mean max(0, 1 - zF)``, and return it with a record.

    ``z`` is the label of the query, +1 or -1, and ``F`` the model's output there. There is no momentum, no decay of
    weights or of the step size, and no clipping. Step t uses prompts ``t B, ..., (t + 1) B - 1`` of its stream, so data
    depend on the stream and the batch size alone.

    Args:
        model: with ``forward(prompts) -> (B, Q)`` and ``input_dim``; where it has ``gate_parameters()``, those weights
            take ``gate_learning_rate``.
        prompts: the prompt distribution.
        settings: what the result depends on beside the model, the prompts and the stream; see `HingeSettings`.
        stream: of all randomness.
        progress: called with a `TrainProgress` after every window. The model is then as it is after that step, so it
            can be looked at.
        changes: fields of `HingeSettings`, in place of ``settings`` or over them.

    Raises:
        InputError: before any step, for arguments out of range, and for labels of queries other than +1 and -1; later
            where memory does not suffice.
        NonFiniteLossError: where an output stops being finite, with the step.

    Reference: arXiv 2510.00399.
    """
    settings = with_changes(HingeSettings, settings, changes, "hinge_sgd")
    check_stream(stream)
    check_distribution(prompts)
    if input_dim(model) != prompts.ambient_dim:
        raise InputError(
            f"the prompts have dimension {prompts.ambient_dim} and the model takes {input_dim(model)}; "
            "expected the same"
        )
    trained_dtype(model)
    analytic = settings.gradients == "auto" and type(model) in ANALYTIC
    take = _analytic if analytic else _autograd
    rates, windows, margins = _rates(model, settings), list[HingeWindow](), list[Tensor]()
    begun, step = time.monotonic(), 0
    steps, learning_rate = settings.steps, settings.learning_rate
    advice = f"lower batch_size ({settings.batch_size}) or num_examples ({settings.num_examples})"
    with memory_advice(f"training {type(model).__name__}", next(model.parameters()).device, advice):
        for step, batch in enumerate(_batches(model, prompts, settings, stream.child("train")), start=1):
            outputs, slopes = take(model, batch)
            if not math.isfinite(float(outputs.sum())):
                raise _failure(step, outputs, batch, slopes, learning_rate)
            _descend(rates, slopes)
            margins.append(outputs * batch.query_labels)
            if step % settings.log_every and step < steps:
                continue
            windows.append(HingeWindow.measure(step, torch.cat(margins).cpu()))
            margins.clear()
            if progress is not None:
                elapsed = time.monotonic() - begun
                left = elapsed * (steps - step) / step
                progress(TrainProgress(step, steps, windows[-1].loss, learning_rate, elapsed, left))
            if settings.until_loss is not None and windows[-1].loss <= settings.until_loss:
                break
    return model, HingeRecord(
        settings=_describe(model, settings, stream),
        seconds=time.monotonic() - begun,
        windows=tuple(windows),
        steps=step,
        gradients="analytic" if analytic else "autograd",
    )


def _rates(model: nn.Module, settings: HingeSettings) -> dict[nn.Parameter, float]:
    """The step size of each trained weight."""
    gates = {id(parameter) for parameter in _gate_parameters(model)}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return {p: settings.gate_rate if id(p) in gates else settings.learning_rate for p in trained}


def _gate_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Weights inside gates, where a model says which they are."""
    listed = getattr(model, "gate_parameters", None)
    return list(listed()) if callable(listed) else []


def _describe(model: nn.Module, settings: HingeSettings, stream: Stream) -> dict[str, Any]:
    own = getattr(model, "settings", None)
    return {
        "stream": asdict(stream),
        **settings.asdict(),
        "gate_learning_rate": settings.gate_rate if _gate_parameters(model) else None,
        "model": type(model).__name__,
        "model_settings": own() if callable(own) else {},
    }


def _batches(
    model: nn.Module, prompts: PromptDistribution, settings: HingeSettings, stream: Stream
) -> Iterator[Prompts]:
    """The batch of each step, drawn for several steps at once where batches are small. That changes no number."""
    dtype, device = trained_dtype(model), next(model.parameters()).device
    num_examples, num_queries, rows = settings.num_examples, settings.num_queries, settings.batch_size
    size = rows * (num_examples + num_queries) * prompts.ambient_dim
    together = max(1, min(settings.steps, _AT_ONCE // size))
    for first in range(0, settings.steps, together):
        count = rows * min(together, settings.steps - first)
        drawn = sample_checked(prompts, stream, count, num_examples, num_queries, start=first * rows, dtype=dtype)
        if not first:
            _check_labels(drawn.query_labels)
        drawn = drawn if drawn.inputs.device == device else drawn.to(device)
        for start in range(0, count, rows):
            yield drawn[start : start + rows]


def _check_labels(labels: Tensor) -> None:
    if not bool((labels.abs() == 1).all()):
        found = float(labels[labels.abs() != 1][0])
        raise InputError(f"a query has the label {found:.6g}; expected +1 or -1, as the hinge loss needs")


@torch.no_grad()
def _descend(rates: dict[nn.Parameter, float], slopes: Gradients) -> None:
    for parameter, rate in rates.items():
        if (slope := slopes.get(parameter)) is not None:
            parameter.sub_(slope, alpha=rate)


def _analytic(model: nn.Module, batch: Prompts) -> tuple[Tensor, Gradients]:
    return hinge_gradient(model, batch)  # type: ignore[arg-type]


def _autograd(model: nn.Module, batch: Prompts) -> tuple[Tensor, Gradients]:
    for parameter in model.parameters():
        parameter.grad = None
    outputs = model(batch)
    if outputs.shape != batch.query_labels.shape:
        raise InputError(
            f"{type(model).__name__} returned shape {tuple(outputs.shape)}; expected {tuple(batch.query_labels.shape)}"
        )
    if not outputs.requires_grad:
        raise InputError(
            f"the output of {type(model).__name__} depends on none of its trained parameters; expected "
            "forward(prompts) to use them, without detach or no_grad"
        )
    (1 - batch.query_labels * outputs).clamp(min=0).mean().backward()
    return outputs.detach(), {p: p.grad for p in model.parameters() if p.grad is not None}


def _failure(step: int, outputs: Tensor, batch: Prompts, slopes: Gradients, learning_rate: float) -> NonFiniteLossError:
    loss = float((1 - batch.query_labels * outputs).clamp(min=0).mean())
    norm = float(nn.utils.get_total_norm(list(slopes.values())))
    return NonFiniteLossError(step, loss, norm, learning_rate, None)
