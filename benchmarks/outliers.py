"""Training of one-layer attention on prompts with outliers, beside the loop that one would write first."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.one_layer import _paired, _row
from iclab.models import GatedLinearAttention
from iclab.pretraining import hinge_sgd
from iclab.prompts import OutlierClassification, Prompts, Stream

STEPS, WHOLE = 100, 8000
STREAM = Stream(0).child("bench")


def run() -> list[dict[str, object]]:
    """Rows as in `benchmarks.one_layer`."""
    return [_training(gated) for gated in (True, False)]


def _training(gated: bool) -> dict[str, object]:
    distribution = OutlierClassification(outlier_fraction=0.6)

    def ours() -> None:
        hinge_sgd(GatedLinearAttention(30, gated=gated, stream=STREAM), distribution, stream=STREAM, steps=STEPS)

    def plain() -> None:
        start = GatedLinearAttention(30, gated=gated, stream=STREAM)
        weights = [parameter.detach().clone().requires_grad_() for parameter in start.parameters()]
        rates = [0.2 if weight.ndim == 1 else 0.02 for weight in weights]
        optimiser = torch.optim.SGD([{"params": [w], "lr": rate} for w, rate in zip(weights, rates, strict=True)])
        for step in range(STEPS):
            batch = distribution.sample(STREAM.child("train"), 64, 20, start=64 * step)
            loss = (1 - batch.query_labels * _outputs(weights, batch)).clamp(min=0).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            loss.item()

    own_ms, plain_ms = _paired(ours, plain, 7)
    seconds = own_ms / 1000 * WHOLE / STEPS
    kind = "gated" if gated else "linear"
    return _row(
        f"{STEPS} steps of hinge SGD, one layer, {kind}, d=30, N=20, batch 64", "autograd, step by step", own_ms,
        plain_ms, note=f"{WHOLE:,} steps take about {seconds:.1f} s (target: at most 60)",
    )  # fmt: skip


def _outputs(weights: list[Tensor], p: Prompts) -> Tensor:
    """``(B, Q)``, as the paper prints it."""
    context = torch.cat([p.examples, p.example_labels[..., None]], -1)
    queries = torch.cat([p.queries, torch.zeros_like(p.queries[..., :1])], -1)
    key, ask, *gate = weights
    scores = (queries @ ask.T) @ (context @ key.T).transpose(1, 2)
    if gate:
        opened = torch.sigmoid(torch.cat([context, queries], 1) @ gate[0])
        kept = torch.flip(torch.cumprod(torch.flip(1 - opened, [1]), 1), [1])
        scores = scores * (opened[:, :-1] * kept[:, 1:])[:, None]
    return (scores * p.example_labels[:, None]).sum(-1)
