"""`Prompts`: a batch of in-context learning problems, the one object that every learner receives.

Shapes: B prompts, N context examples, Q queries, d ambient dimension.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError, check_integer


@dataclass(frozen=True)
class Prompts:
    """A batch of prompts: the first ``num_examples`` positions are the context, the rest are queries.

    Attributes:
        inputs: ``(B, N+Q, d)``.
        labels: ``(B, N+Q)``, noisy labels. Those of unlabelled queries are NaN, so a learner that peeks is found out.
        num_examples: N, the number of labelled context examples.
        targets: ``(B, N+Q)``, clean labels, or ``None`` where the truth is unknown.
        directions: ``(B, d)``, the unit vector behind each prompt, or ``None``.
    """

    inputs: Tensor
    labels: Tensor
    num_examples: int
    targets: Tensor | None = None
    directions: Tensor | None = None

    def __post_init__(self) -> None:
        if self.inputs.ndim != 3:
            raise InputError(f"inputs have shape {tuple(self.inputs.shape)}; expected (prompts, examples + queries, d)")
        batch, length, dim = self.inputs.shape
        check_integer("num_examples", self.num_examples, 0, length)
        if dim < 1:
            raise InputError("inputs have dimension 0; expected at least one coordinate")
        if tuple(self.labels.shape) != (batch, length):
            raise InputError(f"labels have shape {tuple(self.labels.shape)}; expected {(batch, length)}")
        if self.targets is not None and tuple(self.targets.shape) != (batch, length):
            raise InputError(f"targets have shape {tuple(self.targets.shape)}; expected {(batch, length)}")
        if self.directions is not None and tuple(self.directions.shape) != (batch, dim):
            raise InputError(f"directions have shape {tuple(self.directions.shape)}; expected {(batch, dim)}")

    @property
    def batch_size(self) -> int:
        """B, the number of prompts."""
        return self.inputs.shape[0]

    @property
    def ambient_dim(self) -> int:
        """d, the dimension of an input."""
        return self.inputs.shape[2]

    @property
    def num_queries(self) -> int:
        """Q, the number of queries of each prompt."""
        return self.inputs.shape[1] - self.num_examples

    @property
    def examples(self) -> Tensor:
        """``(B, N, d)``: the inputs of the context."""
        return self.inputs[:, : self.num_examples]

    @property
    def example_labels(self) -> Tensor:
        """``(B, N)``: the noisy labels of the context."""
        return self.labels[:, : self.num_examples]

    @property
    def queries(self) -> Tensor:
        """``(B, Q, d)``: the inputs to predict at."""
        return self.inputs[:, self.num_examples :]

    @property
    def query_labels(self) -> Tensor:
        """``(B, Q)``: the noisy labels of the queries; for scoring, never for learning."""
        return self.labels[:, self.num_examples :]

    @property
    def query_targets(self) -> Tensor:
        """``(B, Q)``: the clean labels of the queries. Raises `InputError` where they are unknown."""
        if self.targets is None:
            raise InputError("these prompts carry no clean targets; score against the noisy labels instead")
        return self.targets[:, self.num_examples :]

    def prefix(self, num_examples: int) -> Prompts:
        """The same prompts cut to their first ``num_examples`` examples, with all queries."""
        num_examples = check_integer("num_examples", num_examples, 0, self.num_examples)
        if num_examples == self.num_examples:
            return self
        return replace(
            self,
            inputs=torch.cat([self.inputs[:, :num_examples], self.queries], 1),
            labels=torch.cat([self.labels[:, :num_examples], self.query_labels], 1),
            targets=None
            if self.targets is None
            else torch.cat([self.targets[:, :num_examples], self.query_targets], 1),
            num_examples=num_examples,
        )

    def __getitem__(self, rows: slice) -> Prompts:
        """A sub-batch: ``prompts[10:20]``."""
        if not isinstance(rows, slice):
            raise InputError(f"prompts are indexed by {rows!r}; expected a slice such as prompts[0:8]")
        return replace(
            self,
            inputs=self.inputs[rows],
            labels=self.labels[rows],
            targets=None if self.targets is None else self.targets[rows],
            directions=None if self.directions is None else self.directions[rows],
        )

    def to(self, *args: object, **kwargs: object) -> Prompts:
        """Every tensor moved or converted as by ``torch.Tensor.to``."""

        def move(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(*args, **kwargs)  # type: ignore[arg-type]

        return replace(
            self,
            inputs=self.inputs.to(*args, **kwargs),  # type: ignore[arg-type]
            labels=self.labels.to(*args, **kwargs),  # type: ignore[arg-type]
            targets=move(self.targets),
            directions=move(self.directions),
        )

    @staticmethod
    def cat(batches: list[Prompts]) -> Prompts:
        """Join batches along the prompts.

        Raises:
            InputError: without a batch, or where context lengths, numbers of queries or dimensions differ.
        """
        if not batches:
            raise InputError("no batches to join; expected at least one")
        first = batches[0]
        for batch in batches[1:]:
            if (batch.num_examples, *batch.inputs.shape[1:]) != (first.num_examples, *first.inputs.shape[1:]):
                raise InputError(
                    f"batches of {first.num_examples} and {batch.num_examples} examples, with inputs of shape "
                    f"{tuple(first.inputs.shape)} and {tuple(batch.inputs.shape)}; expected the same N, Q and d"
                )
        targets = [b.targets for b in batches]
        directions = [b.directions for b in batches]
        return Prompts(
            inputs=torch.cat([b.inputs for b in batches]),
            labels=torch.cat([b.labels for b in batches]),
            num_examples=first.num_examples,
            targets=None if any(t is None for t in targets) else torch.cat([t for t in targets if t is not None]),
            directions=None
            if any(t is None for t in directions)
            else torch.cat([t for t in directions if t is not None]),
        )

    @staticmethod
    def from_arrays(
        x: object,
        y: object,
        x_query: object,
        y_query: object | None = None,
        *,
        dtype: torch.dtype = torch.float64,
    ) -> Prompts:
        """Prompts from a user's own data.

        Args:
            x: ``(N, d)`` or ``(B, N, d)`` context inputs (arrays, tensors or nested lists).
            y: ``(N,)`` or ``(B, N)`` context labels.
            x_query: ``(Q, d)`` or ``(B, Q, d)`` queries.
            y_query: ``(Q,)`` or ``(B, Q)`` labels of the queries where known; otherwise they are NaN.
            dtype: of the result.

        Raises:
            InputError: for shapes that disagree and for values that are not finite, naming the first bad place.
        """
        examples = _finite("x", x, 3, dtype)
        labels = _finite("y", y, 2, dtype)
        queries = _finite("x_query", x_query, 3, dtype)
        batch, count, dim = examples.shape
        if tuple(labels.shape) != (batch, count):
            raise InputError(
                f"y has shape {tuple(labels.shape)} for x of shape {tuple(examples.shape)}; one label an example"
            )
        if queries.shape[0] != batch or queries.shape[2] != dim:
            raise InputError(
                f"x_query has shape {tuple(queries.shape)} for x of shape {tuple(examples.shape)}; "
                "the number of prompts and the dimension must agree"
            )
        if y_query is None:
            answers = torch.full(queries.shape[:2], float("nan"), dtype=dtype)
        else:
            answers = _finite("y_query", y_query, 2, dtype)
            if answers.shape != queries.shape[:2]:
                raise InputError(f"y_query has shape {tuple(answers.shape)}; expected {tuple(queries.shape[:2])}")
        return Prompts(torch.cat([examples, queries], 1), torch.cat([labels, answers], 1), count)


def check_finite(name: str, tensor: Tensor) -> Tensor:
    """Return ``tensor``; raise `InputError` naming the first entry that is not finite."""
    bad = ~torch.isfinite(tensor)
    if bool(bad.any()):
        place = tuple(int(i) for i in bad.nonzero()[0])
        raise InputError(
            f"{name} is {float(tensor[place])} at {place}; expected finite numbers (remove or impute them)"
        )
    return tensor


def _finite(name: str, value: object, ndim: int, dtype: torch.dtype) -> Tensor:
    try:
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value, dtype=np.float64))
        if tensor.is_complex():
            raise TypeError
        tensor = tensor.to(dtype)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is no rectangular array of numbers; expected {ndim - 1} or {ndim} dimensions"
        ) from None
    if tensor.ndim == ndim - 1:
        tensor = tensor.unsqueeze(0)
    if tensor.ndim != ndim:
        raise InputError(f"{name} has {tensor.ndim} dimensions; expected {ndim - 1} or {ndim} (with a batch)")
    return check_finite(name, tensor)
