"""`Estimator`: what learners without pretraining share: float64 arithmetic, bounded memory, a choice of coordinates.

Shapes: B prompts, N context examples, Q queries, d dimension of an input (of the chosen coordinates, where given).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from iclab.errors import InputError, check_integer
from iclab.memory import check_memory
from iclab.prompts import Prompts
from iclab.prompts.batch import check_finite, check_prompts

TEMPORARY_BYTES = 128 * 2**20
"""Aim for the temporaries of one chunk of prompts; a single prompt that needs more is still computed."""


class Estimator(ABC):
    """A learner that uses the prompt alone; a new one implements `name`, `at_queries`, `at_examples`, `prompt_bytes`.

    Whatever the dtype of the prompts, arithmetic is float64 and results come back in the dtype of the inputs. Prompts
    are handled in chunks, so memory stays bounded. Labels of queries are never read, and the prediction of an example
    uses the examples before it only.

    Args:
        coordinates: the input coordinates that the estimator is told to use ("told the subspace"); ``None`` for all.

    Raises:
        InputError: for coordinates that repeat or are no indices; later, for prompts whose inputs or context labels are
            not finite or that lack one of the coordinates.
    """

    def __init__(self, coordinates: Sequence[int] | None = None) -> None:
        self.coordinates = None if coordinates is None else _check_coordinates(coordinates)

    @property
    @abstractmethod
    def name(self) -> str:
        """How legends call it, with the hyper-parameters that matter."""

    @abstractmethod
    def at_queries(self, examples: Tensor, labels: Tensor, queries: Tensor, counts: Sequence[int]) -> Tensor:
        """Predict at queries from several prefixes of the examples.

        Args:
            examples: ``(B, N, d)``, float64 and finite.
            labels: ``(B, N)``, float64 and finite.
            queries: ``(B, Q, d)``.
            counts: lengths of the prefixes, ascending within ``[1, N]``.

        Returns:
            ``(len(counts), B, Q)``.
        """

    @abstractmethod
    def at_examples(self, examples: Tensor, labels: Tensor) -> Tensor:
        """Predict each example from the examples before it.

        Args:
            examples: ``(B, N, d)``, N >= 1.
            labels: ``(B, N)``.

        Returns:
            ``(B, N)``, where column k predicts example k from the k before it; column 0 is zero.
        """

    @abstractmethod
    def prompt_bytes(self, num_examples: int, num_queries: int, dim: int) -> int:
        """Return an upper estimate of the temporaries of one prompt, in bytes; the size of a chunk follows from it.

        Args:
            num_examples, num_queries: N and Q; 0 queries for `at_examples`.
            dim: coordinates that the estimator sees.
        """

    def predict(self, prompts: Prompts) -> Tensor:
        """Predict at the queries from all N examples, ``(B, Q)``; zero at N = 0."""
        return self.predict_at(prompts, [check_prompts(prompts).num_examples])[0]

    @torch.no_grad()
    def predict_at(self, prompts: Prompts, num_examples: Sequence[int]) -> Tensor:
        """Predict at the queries from several prefixes of the same prompts.

        Equal to ``predict(prompts.prefix(n))`` for each ``n``, from one factorisation where the mathematics allows.

        Args:
            prompts: B prompts with Q queries.
            num_examples: lengths of the prefixes, in any order.

        Returns:
            ``(len(num_examples), B, Q)``, in the dtype of the prompts.

        Raises:
            InputError: for no sizes, or a size above the length of the context.
        """
        sizes = check_sizes(num_examples, check_prompts(prompts).num_examples)
        counts = sorted({n for n in sizes if n > 0})
        longest = max(sizes)
        inputs, labels = self._float64(prompts, longest)
        queries = inputs[:, longest:]
        result = inputs.new_zeros(len(sizes), *queries.shape[:2])
        if counts and queries.shape[1]:
            rows = [index for index, n in enumerate(sizes) if n > 0]
            slots = [counts.index(n) for n in sizes if n > 0]
            for part in self._chunks(prompts, longest, queries.shape[1], inputs.shape[2]):
                found = self.at_queries(inputs[part, :longest], labels[part], queries[part], counts)
                result[rows, part] = found[slots]
        return result.to(prompts.inputs.dtype)

    @torch.no_grad()
    def predict_prefixes(self, prompts: Prompts) -> Tensor:
        """Predict each example from the examples before it.

        Returns:
            ``(B, N)`` in the dtype of the prompts, where column k is the prediction of example k from the k examples
            before it; column 0 is zero.
        """
        count = check_prompts(prompts).num_examples
        inputs, labels = self._float64(prompts, count)
        result = torch.zeros_like(labels)
        if count:
            for part in self._chunks(prompts, count, 0, inputs.shape[2]):
                result[part] = self.at_examples(inputs[part, :count], labels[part])
        return result.to(prompts.inputs.dtype)

    def _float64(self, prompts: Prompts, num_examples: int) -> tuple[Tensor, Tensor]:
        """Inputs of the first examples and of all queries, and the labels of these examples, checked and in float64."""
        inputs = prompts.prefix(num_examples).inputs
        if self.coordinates is not None:
            if max(self.coordinates) >= prompts.ambient_dim:
                raise InputError(
                    f"{self.name} uses coordinate {max(self.coordinates)} and the inputs have {prompts.ambient_dim}; "
                    "expected coordinates below that dimension"
                )
            inputs = inputs[:, :, list(self.coordinates)]
        labels = prompts.labels[:, :num_examples]
        return check_finite("inputs", inputs.double()), check_finite("labels of the context", labels.double())

    def _chunks(self, prompts: Prompts, num_examples: int, num_queries: int, dim: int) -> list[slice]:
        needed = max(1, self.prompt_bytes(num_examples, num_queries, dim))
        check_memory(f"{self.name} on one prompt of {num_examples} examples", needed)
        step = max(1, TEMPORARY_BYTES // needed)
        return [slice(start, start + step) for start in range(0, prompts.batch_size, step)]

    def label(self, *parts: str) -> str:
        """Return a name for tables and legends from its parts; ``intrinsic`` is added where coordinates were given."""
        return ", ".join([*parts, *(["intrinsic"] if self.coordinates is not None else [])])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def check_sizes(num_examples: Sequence[int], longest: int) -> list[int]:
    """The sizes as a list of integers in ``[0, longest]``; raise `InputError` otherwise, also when there are none."""
    sizes = [check_integer("num_examples", n, 0, longest) for n in num_examples]
    if not sizes:
        raise InputError("num_examples is empty; expected at least one number of examples")
    return sizes


def short_number(number: float) -> str:
    """Three digits for a legend: ``0.01 -> '1e-2'``, ``2.828 -> '2.83'``, ``4096 -> '4.1e3'``."""
    if number == 0 or 0.1 <= abs(number) < 1000:
        return f"{number:.3g}"
    mantissa, exponent = f"{number:.2e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def _check_coordinates(coordinates: Sequence[int]) -> tuple[int, ...]:
    indices = tuple(check_integer("a coordinate", index, 0) for index in coordinates)
    if not indices or len(set(indices)) != len(indices):
        raise InputError(f"coordinates are {list(coordinates)}; expected distinct indices, at least one")
    return indices
