"""The worst single outlier: a search for the context example that misleads a model most, beside random ones.

One example of each prompt becomes ``x_i + delta`` with ``|delta| <= radius`` and shows a label that a rule fixes; the
search lowers the margin ``z F`` of the query, z its clean label and F the model's output. It is projected gradient
descent with normalised steps. The adversary knows the model, the prompt and the query. The margin need not be convex in
``delta``, so what is found bounds the harm of the worst outlier from below and not from above.
Shapes: B prompts, N examples, P positions, K directions, d ambient dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from iclab.errors import InputError, check_integer, check_positive
from iclab.evaluation.outlier_margins import Model, WorstOutliers, margins_at, measured, pieces, setting
from iclab.prompts import OutlierPrompts, Stream
from iclab.prompts.outlier_rules import LabelRule

_FIRST_STEP = 2.0  # over the radius; the steps shrink linearly to nothing


def worst_outliers(
    model: Model,
    prompts: OutlierPrompts,
    radius: float,
    *,
    stream: Stream,
    positions: Sequence[int] | None = None,
    label_rule: str | LabelRule = "flipped",
    target_label: int = 1,
    steps: int = 30,
    restarts: int = 3,
) -> WorstOutliers:
    """Search the worst single outlier at each position by projected gradient descent on the margin.

    The first search starts at ``delta = 0``, the others at random directions of length ``radius``. The best point on
    the way counts, so the result is no worse for the adversary than any of the starts.

    Args:
        model: ``model(prompts) -> (B, 1)``, differentiable in the inputs; its parameters are left alone.
        prompts: with one query each.
        radius: bound of ``|delta|``.
        stream: of random starts and random labels.
        positions: indices of context examples; ``None`` is all of them.
        label_rule, target_label: of the outlier, as in `iclab.prompts.outlier_rules.OutlierRules`.
        steps: gradient steps of each search.
        restarts: searches at each position.

    Raises:
        InputError: for numbers out of range, positions that do not exist, prompts without a context or with another
            number of queries than one, and outputs that are not finite.
    """
    radius = check_positive("radius", radius)
    steps, restarts = check_integer("steps", steps, 0), check_integer("restarts", restarts, 1)
    chosen, labels = setting(prompts, positions, label_rule, target_label, stream)
    shape = (len(chosen), *prompts.queries[:, 0].shape)
    best: WorstOutliers | None = None
    for restart in range(restarts):
        start = torch.zeros(shape).to(prompts.inputs)
        if restart:
            start = radius * _directions(shape, stream.child("starts").at(restart)).to(prompts.inputs)
        found = WorstOutliers.join(
            [
                _descend(model, piece, chosen, labels[:, rows], start[:, rows], radius, steps)
                for rows, piece in pieces(prompts, len(chosen))
            ]
        )
        best = found if best is None else best.better(found)
    assert best is not None
    return best


def random_outliers(
    model: Model,
    prompts: OutlierPrompts,
    radius: float,
    *,
    stream: Stream,
    draws: int = 1,
    directions: Tensor | None = None,
    positions: Sequence[int] | None = None,
    label_rule: str | LabelRule = "flipped",
    target_label: int = 1,
) -> WorstOutliers:
    """Try random outliers of length ``radius`` at each position and keep the worst.

    With one draw it is a random outlier.

    Args:
        model, prompts, radius, positions, label_rule, target_label: as in `worst_outliers`. From the same stream both
            show the same labels.
        stream: of the directions and random labels.
        draws: how many are tried at each position of each prompt.
        directions: ``(K, d)``: take one of these, at random and normalised, instead of a uniform direction.

    Raises:
        InputError: as `worst_outliers`; also for directions of another shape, of length zero or not finite.
    """
    radius, draws = check_positive("radius", radius), check_integer("draws", draws, 1)
    chosen, labels = setting(prompts, positions, label_rule, target_label, stream)
    shape = (len(chosen), *prompts.queries[:, 0].shape)
    given = None if directions is None else _normalised(directions, prompts.ambient_dim)
    best: WorstOutliers | None = None
    for draw in range(draws):
        generator = stream.child("draws").at(draw)
        drawn = (
            _directions(shape, generator)
            if given is None
            else given[torch.randint(len(given), shape[:2], generator=generator)]
        )
        changes = (radius * drawn).to(prompts.inputs)
        found = WorstOutliers.join(
            [
                measured(model, piece, chosen, labels[:, rows], changes[:, rows])
                for rows, piece in pieces(prompts, len(chosen))
            ]
        )
        best = found if best is None else best.better(found)
    assert best is not None
    return best


def _descend(
    model: Model, prompts: OutlierPrompts, positions: Tensor, labels: Tensor, start: Tensor, radius: float, steps: int
) -> WorstOutliers:
    """Normalised steps down the margin, projected on the ball; the best point of all."""
    changes, best = start, WorstOutliers(positions, torch.full_like(labels, math.inf), start, labels, 0)
    for step in range(steps):
        changes = changes.detach().requires_grad_()
        with torch.enable_grad():
            margins = margins_at(model, prompts, positions, labels, changes)
            (slopes,) = torch.autograd.grad(margins.sum(), changes)
        changes = changes.detach()
        best = best.better(WorstOutliers(positions, margins.detach(), changes, labels, margins.numel()))
        lengths = slopes.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(slopes.dtype).tiny)
        moved = changes - radius * _FIRST_STEP * (1 - step / steps) * (slopes / lengths)
        changes = moved * (radius / moved.norm(dim=-1, keepdim=True).clamp(min=radius))
    return best.better(measured(model, prompts, positions, labels, changes))


def _directions(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform on the sphere, float64."""
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    return drawn / drawn.norm(dim=-1, keepdim=True)


def _normalised(directions: Tensor, dim: int) -> Tensor:
    if not isinstance(directions, Tensor) or directions.ndim != 2 or directions.shape[1] != dim:
        found = tuple(directions.shape) if isinstance(directions, Tensor) else type(directions).__name__
        raise InputError(f"directions are {found}; expected a tensor of shape (K, {dim})")
    lengths = directions.double().norm(dim=1, keepdim=True)
    if not len(lengths) or not bool(((lengths > 0) & lengths.isfinite()).all()):
        raise InputError("a direction is zero or not finite, or there is none; expected vectors that have a length")
    return directions.double().cpu() / lengths.cpu()
