"""Prompts with one example changed, and the margins that a model has there: what attacks on a prompt are made of.

Shapes: B prompts, N examples, P positions, d ambient dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from iclab.errors import InputError, check_integer
from iclab.prompts import OutlierPrompts, Prompts, Stream
from iclab.prompts.outlier_rules import LabelRule, OutlierRules

Model = Callable[[Prompts], Tensor]
_NUMBERS_AT_ONCE = 1 << 21  # of the inputs of all prompts that are changed together


@dataclass(frozen=True)
class WorstOutliers:
    """The worst outlier found at each position of each prompt.

    Attributes:
        positions: ``(P,)`` int64, indices of context examples.
        margins: ``(P, B)``, the margin ``z F``; the query is answered wrongly where it is <= 0.
        changes: ``(P, B, d)``, what is added to the input.
        labels: ``(P, B)``, the label shown there.
        evaluations: how often the model was asked about one prompt with one position changed.
    """

    positions: Tensor
    margins: Tensor
    changes: Tensor
    labels: Tensor
    evaluations: int

    @property
    def worst_position(self) -> Tensor:
        """``(B,)``: the index into ``positions`` at which the margin is smallest."""
        return self.margins.argmin(0)

    @property
    def worst_margin(self) -> Tensor:
        """``(B,)``: the margin there."""
        return self.margins.amin(0)

    @property
    def worst_change(self) -> Tensor:
        """``(B, d)``: the change there."""
        return self.changes[self.worst_position, torch.arange(self.changes.shape[1])]

    def applied(self, prompts: OutlierPrompts) -> OutlierPrompts:
        """Return ``prompts`` with the worst outlier of each put in."""
        rows, best = torch.arange(prompts.batch_size), self.worst_position
        inputs, labels, outliers = prompts.inputs.clone(), prompts.labels.clone(), prompts.outliers.clone()
        where = self.positions[best]
        inputs[rows, where] += self.worst_change
        labels[rows, where] = self.labels[best, rows]
        outliers[rows, where] = True
        return replace(prompts, inputs=inputs, labels=labels, outliers=outliers, trusted=True)

    def better(self, other: WorstOutliers) -> WorstOutliers:
        """Take at each position of each prompt the one with the smaller margin."""
        lower = other.margins < self.margins
        return replace(
            self,
            margins=torch.where(lower, other.margins, self.margins),
            changes=torch.where(lower[..., None], other.changes, self.changes),
            evaluations=self.evaluations + other.evaluations,
        )

    @staticmethod
    def join(parts: Sequence[WorstOutliers]) -> WorstOutliers:
        """Join along the prompts."""
        return WorstOutliers(
            parts[0].positions,
            torch.cat([p.margins for p in parts], 1),
            torch.cat([p.changes for p in parts], 1),
            torch.cat([p.labels for p in parts], 1),
            sum(p.evaluations for p in parts),
        )


def margins_at(model: Model, prompts: OutlierPrompts, positions: Tensor, labels: Tensor, changes: Tensor) -> Tensor:
    """``(P, B)``: the margin of each prompt with ``changes (P, B, d)`` added and ``labels (P, B)`` shown there.

    Raises:
        InputError: where the model's output is not finite.
    """
    number, batch = labels.shape
    rows, columns = torch.arange(number, device=positions.device)[:, None], torch.arange(batch, device=positions.device)
    where = (rows.expand(number, batch), columns.expand(number, batch), positions[:, None].expand(number, batch))
    inputs = prompts.inputs.expand(number, *prompts.inputs.shape).index_put(where, changes, accumulate=True)
    shown = prompts.labels.expand(number, *prompts.labels.shape).index_put(where, labels)
    outputs = model(Prompts(inputs.flatten(0, 1), shown.flatten(0, 1), prompts.num_examples, trusted=True))
    if not bool(torch.isfinite(outputs).all()):
        raise InputError(
            "the model's output is not finite at a changed prompt; make the radius smaller, or use float64"
        )
    return outputs.view(number, batch) * prompts.query_targets[:, 0].to(outputs)


def measured(
    model: Model, prompts: OutlierPrompts, positions: Tensor, labels: Tensor, changes: Tensor
) -> WorstOutliers:
    """These very changes, with their margins."""
    with torch.no_grad():
        margins = margins_at(model, prompts, positions, labels, changes)
    return WorstOutliers(positions, margins, changes, labels, margins.numel())


def setting(
    prompts: OutlierPrompts,
    positions: Sequence[int] | None,
    label_rule: str | LabelRule,
    target_label: int,
    stream: Stream,
) -> tuple[Tensor, Tensor]:
    """The positions ``(P,)``, and the labels ``(P, B)`` that outliers show there.

    Raises:
        InputError: for positions that do not exist or repeat, unknown rules, and prompts without a context or with
            another number of queries than one.
    """
    if not isinstance(stream, Stream):
        raise InputError(f"stream is {stream!r}; expected a Stream, such as Stream(0).child('attack')")
    if prompts.num_queries != 1 or prompts.num_examples < 1:
        raise InputError(
            f"the prompts have {prompts.num_examples} examples and {prompts.num_queries} queries; "
            "expected at least one example and one query"
        )
    last = prompts.num_examples - 1
    listed = (
        list(range(last + 1)) if positions is None else [check_integer("a position", p, 0, last) for p in positions]
    )
    if not listed or len(set(listed)) < len(listed):
        raise InputError(f"positions are {listed}; expected at least one, and none twice")
    chosen = torch.tensor(listed, device=prompts.inputs.device)
    assert prompts.targets is not None  # outlier prompts have them
    targets = prompts.targets[:, : prompts.num_examples]
    uniforms = torch.rand(targets.shape, generator=stream.child("labels").at(0), dtype=torch.float64)
    kinds = torch.zeros(targets.shape, dtype=torch.int64)
    shown = OutlierRules(label_rule=label_rule, target_label=target_label).labels(targets.cpu(), kinds, uniforms)
    return chosen, shown.to(targets)[:, chosen].T


def pieces(prompts: OutlierPrompts, positions: int) -> Iterator[tuple[slice, OutlierPrompts]]:
    """The prompts in parts of bounded memory, each with the rows that it is."""
    size = positions * prompts.inputs.shape[1] * prompts.ambient_dim
    rows = max(1, _NUMBERS_AT_ONCE // size)
    for start in range(0, prompts.batch_size, rows):
        part = slice(start, start + rows)
        yield part, prompts[part]
