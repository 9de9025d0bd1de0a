"""`Prompts`: a batch of in-context learning problems, the one object that every learner receives.

Shapes: B prompts, N context examples, Q queries, d ambient dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, fields, replace
from typing import Self, TypeVar

import torch
from torch import Tensor

from iclab.errors import InputError, check_integer
from iclab.prompts.values import check_dtype, check_finite, check_unit, real_tensor

__all__ = ["PER_POSITION", "PER_PROMPT", "Prompts", "check_finite"]

PER_PROMPT = {"per": "prompt"}
"""Metadata of a field of `Prompts` whose tensor has one row for each prompt, ``(B, ...)``."""
PER_POSITION = {"per": "position"}
"""Metadata of a field of `Prompts` whose tensor has one row for each input, ``(B, N+Q, ...)``."""

_Batch = TypeVar("_Batch", bound="Prompts")


@dataclass(frozen=True)
class Prompts:
    """A batch of prompts: the first ``num_examples`` positions are the context, the rest are queries.

    A family whose prompts carry more latents derives from this class: a field whose metadata are `PER_PROMPT` or
    `PER_POSITION` is cut, joined and moved with the rest.

    Attributes:
        inputs: ``(B, N+Q, d)``.
        labels: ``(B, N+Q)``, noisy labels. Those of unlabelled queries are NaN, so a learner that peeks is found out.
        num_examples: N, the number of labelled context examples.
        targets: ``(B, N+Q)``, clean labels, or ``None`` where the truth is unknown.
        directions: ``(B, d)``, the unit vector behind each prompt, or ``None``.
        trusted: for constructors whose values are known to be good (drawn, or taken from other prompts): only shapes
            are looked at. Loops that build a batch for every few prompts save the pass over the inputs with it.

    Raises:
        InputError: for shapes that disagree; unless ``trusted``, also for inputs, context labels or targets that are
            not finite, infinite query labels (NaN means unlabelled; a target may be NaN there too), and directions
            whose length is not 1 to within rounding of their dtype.
    """

    inputs: Tensor = field(metadata=PER_POSITION)
    labels: Tensor = field(metadata=PER_POSITION)
    num_examples: int
    targets: Tensor | None = field(default=None, metadata=PER_POSITION)
    directions: Tensor | None = field(default=None, metadata=PER_PROMPT)
    trusted: InitVar[bool] = field(default=False, kw_only=True)

    def __post_init__(self, trusted: bool) -> None:
        self._check_shapes()
        if not trusted:
            self._check_values()

    def _check_shapes(self) -> None:
        for name in ("inputs", "labels", "targets", "directions"):
            tensor = getattr(self, name)
            if tensor is None and name in ("targets", "directions"):
                continue
            if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
                kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
                raise InputError(
                    f"{name} are of type {kind}; expected a real floating point tensor (Prompts.from_arrays converts)"
                )
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

    def _check_values(self) -> None:
        check_finite("an input", self.inputs)
        check_finite("a context label", self.example_labels)
        unlabelled = torch.isnan(self.query_labels)
        check_finite("a query label", self.query_labels.masked_fill(unlabelled, 0.0), "NaN where unlabelled")
        if self.targets is not None:
            check_finite("a context target", self.targets[:, : self.num_examples])
            absent = unlabelled & torch.isnan(self.query_targets)
            check_finite("a query target", self.query_targets.masked_fill(absent, 0.0), "NaN where unlabelled")
        if self.directions is not None:
            check_unit("direction", self.directions)

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

    def prefix(self, num_examples: int) -> Self:
        """Return the same prompts cut to their first ``num_examples`` examples, with all queries."""
        count = check_integer("num_examples", num_examples, 0, self.num_examples)
        if count == self.num_examples:
            return self

        def cut(tensor: Tensor, per: str) -> Tensor:
            return torch.cat([tensor[:, :count], tensor[:, self.num_examples :]], 1) if per == "position" else tensor

        return self._map(cut, num_examples=count)

    def __getitem__(self, rows: slice) -> Self:
        """A sub-batch: ``prompts[10:20]``."""
        if not isinstance(rows, slice):
            raise InputError(f"prompts are indexed by {rows!r}; expected a slice such as prompts[0:8]")
        return self._map(lambda tensor, per: tensor[rows])

    def to(self, *args: object, **kwargs: object) -> Self:
        """Move or convert every tensor by these arguments of ``torch.Tensor.to``; indices and marks only move."""
        inputs = self.inputs.to(*args, **kwargs)  # type: ignore[arg-type]

        def move(tensor: Tensor, per: str) -> Tensor:
            if tensor is self.inputs:
                return inputs
            return tensor.to(*args, **kwargs) if tensor.is_floating_point() else tensor.to(inputs.device)  # type: ignore[arg-type]

        return self._map(move)

    def pinned(self) -> Self:
        """Copy every tensor to page-locked memory, from which a GPU copies while the CPU goes on."""
        return self._map(lambda tensor, _: tensor.pin_memory())

    def _map(self, change: Callable[[Tensor, str], Tensor], **changes: object) -> Self:
        """These prompts with every tensor changed; ``change`` is told what it has a row for (prompt or position)."""
        tensors = {f.name: (getattr(self, f.name), f.metadata["per"]) for f in fields(self) if "per" in f.metadata}
        new = {name: change(tensor, per) for name, (tensor, per) in tensors.items() if tensor is not None}
        return replace(self, **new, **changes, trusted=True)  # type: ignore[arg-type]

    @staticmethod
    def cat(batches: list[_Batch]) -> _Batch:
        """Join batches along the prompts. What one of them lacks (clean targets, the latents of a family) is dropped.

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
        common = next(kind for kind in type(first).__mro__ if all(isinstance(batch, kind) for batch in batches))
        joined = {f.name: getattr(first, f.name) for f in fields(common)}
        for name in (f.name for f in fields(common) if "per" in f.metadata):
            tensors = [getattr(batch, name) for batch in batches]
            joined[name] = None if any(t is None for t in tensors) else torch.cat(tensors)
        return common(**joined, trusted=True)

    @staticmethod
    def from_arrays(
        x: object,
        y: object,
        x_query: object,
        y_query: object | None = None,
        *,
        dtype: torch.dtype = torch.float64,
    ) -> Prompts:
        """Make prompts from a user's own data.

        Args:
            x: ``(N, d)`` or ``(B, N, d)`` context inputs (arrays, tensors or nested lists).
            y: ``(N,)`` or ``(B, N)`` context labels.
            x_query: ``(Q, d)`` or ``(B, Q, d)`` queries.
            y_query: ``(Q,)`` or ``(B, Q)`` labels of the queries where known; otherwise they are NaN.
            dtype: of the result.

        Raises:
            InputError: for shapes that disagree, complex numbers, masked entries, and values that are not finite, with
                the first bad index.
        """
        check_dtype(dtype)
        examples = real_tensor("x", x, 3, dtype)
        labels = real_tensor("y", y, 2, dtype)
        queries = real_tensor("x_query", x_query, 3, dtype)
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
            answers = real_tensor("y_query", y_query, 2, dtype)
            if answers.shape != queries.shape[:2]:
                raise InputError(f"y_query has shape {tuple(answers.shape)}; expected {tuple(queries.shape[:2])}")
        return Prompts(torch.cat([examples, queries], 1), torch.cat([labels, answers], 1), count, trusted=True)


def check_prompts(prompts: object) -> Prompts:
    """Return ``prompts`` if they are `Prompts`; raise `InputError` otherwise."""
    if not isinstance(prompts, Prompts):
        raise InputError(
            f"the prompts are of type {type(prompts).__name__}; expected Prompts, as sample() of a prompt distribution "
            "and Prompts.from_arrays return"
        )
    return prompts
