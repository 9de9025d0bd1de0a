"""Two-class prompts over a user's own labelled vectors, some of whose context examples carry a trigger.

Derived from the data model of arXiv 2510.00399: the relevant pattern of an input is its class, the spread of the class
takes the place of the irrelevant patterns, and a trigger that of the outlier patterns.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.prompts.arguments import integer, one_value, own_matrix, positive
from iclab.prompts.labelled_vectors import LabelledVectors
from iclab.prompts.outlier_rules import LabelRule
from iclab.prompts.outlier_vectors import Coefficients, coefficient_rows, combined, random_orthogonal, smallest
from iclab.prompts.stream import Stream
from iclab.prompts.task_pairs import TaskChoice
from iclab.prompts.two_class import Draws, TwoClassDistribution, index_below
from iclab.prompts.values import check_real, tensor_hash


class VectorClassification(TwoClassDistribution):
    """Prompts of two-class tasks over a user's own labelled vectors; outliers carry a trigger.

    A task is an ordered pair of classes. An input is a vector of one of the two, each with probability 1/2; an outlier
    is ``vector + outlier_size * trigger``, or, where the triggered version of each vector is known (embeddings of the
    same texts with a trigger phrase), ``vector + outlier_size * (triggered - vector)``. A query is never among the
    examples of its prompt; examples are drawn with replacement.

    Args:
        vectors: ``(n, d)``, finite and not all equal.
        classes: ``(n,)`` integers or strings; at least two classes of at least two vectors each.
        trigger: ``(d,)``, or ``(V, d)`` of which each outlier takes one, in the unit of ``vectors``; or their number,
            for random orthogonal directions whose length is the vectors' root mean square distance from their mean.
            ``None`` for one random direction, unless ``triggered`` is given.
        triggered: ``(n, d)``, the same items with the trigger.
        norm: vectors are centred at their mean and scaled to this root mean square length, triggers scaled alike;
            ``None`` leaves all as they are.
        tasks: ``"all"``, ``"cycle"``, a number of balanced random tasks, or a list of pairs of indices into
            ``class_names``: see `task_pairs`.
        outlier_fraction: share of outliers in the context.
        outlier_size: multiplies the trigger; 1 adds it as it is.
        label_rule, target_label, placement, sampling: see `OutlierRules`.
        coefficients: combinations of V triggers of which each outlier takes one; ``None`` for the triggers themselves.
        input_noise: standard deviation of Gaussian noise on each coordinate of each input, queries included.
        seed: of random triggers, of a random set of tasks, and of `split`.

    Attributes:
        class_names: the classes in sorted order; ``patterns`` and ``tasks`` of the prompts are indices into it.
        class_sizes: the number of vectors of each.
        vectors: ``(n, d)`` float64, as the inputs take them.

    Raises:
        InputError: for vectors that are not finite or all equal, other shapes, too few classes or vectors, a trigger
            that is zero, or options out of range.
    """

    def __init__(
        self,
        vectors: object,
        classes: object,
        *,
        trigger: object = None,
        triggered: object = None,
        norm: float | None = 3.0,
        tasks: TaskChoice = "all",
        outlier_fraction: float = 0.0,
        outlier_size: float = 1.0,
        label_rule: str | LabelRule = "random",
        target_label: int = 1,
        coefficients: Coefficients | None = None,
        placement: str = "random",
        sampling: str = "iid",
        input_noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        data = LabelledVectors(vectors, classes, triggered)
        self._stream = Stream(one_value("seed", seed)).child("vector classification")
        self.ambient_dim = data.vectors.shape[1]
        centre, spread = data.centre_and_spread()
        norm = None if norm is None else positive("norm", norm)
        scale = 1.0 if norm is None else norm / spread
        if not 0 < scale < math.inf:
            raise InputError(
                f"norm is {norm} for vectors {spread:.3g} from their mean; expected sizes nearer each other"
            )
        self.vectors = data.vectors if norm is None else (data.vectors - centre) * scale
        self._largest = float(self.vectors.abs().max())
        self._changes = None if data.triggered is None else (data.triggered - data.vectors) * scale
        if data.triggered is not None and trigger is not None:
            raise InputError("trigger and triggered are both given; expected one of them")
        self._triggers = None if data.triggered is not None else self._given(trigger, spread) * scale
        self.class_names = data.names
        order = torch.randperm(len(self.vectors), generator=self._stream.child("order").at(0))
        given = [data.vectors, data.indices, data.triggered, None if trigger is None else self._given(trigger, 1.0)]
        self._data = [None if part is None else tensor_hash(part) for part in given]
        self._members = [order[data.indices[order] == number] for number in range(len(data.names))]
        self._fixed = {"norm": norm, "seed": self._stream.seed}
        options = {
            "tasks": tasks,
            "outlier_fraction": outlier_fraction,
            "outlier_size": outlier_size,
            "label_rule": label_rule,
            "target_label": target_label,
            "coefficients": coefficients,
            "placement": placement,
            "sampling": sampling,
            "input_noise": input_noise,
        }
        self._set(options)

    def _given(self, trigger: object, spread: float) -> Tensor:
        """``(V, d)``: the triggers in the unit of the user's vectors."""
        number = isinstance(trigger, np.ndarray | Tensor | np.generic | int) and not np.ndim(trigger)
        if trigger is None or number:
            count = integer("the number of triggers", 1 if trigger is None else trigger, 1, self.ambient_dim)
            return spread * random_orthogonal(self.ambient_dim, count, self._stream.child("trigger"))
        triggers = own_matrix("trigger", trigger)
        if triggers.shape[1] != self.ambient_dim or not len(triggers):
            raise InputError(
                f"trigger has shape {tuple(triggers.shape)} for vectors of dimension {self.ambient_dim}; "
                f"expected ({self.ambient_dim},) or (number of triggers, {self.ambient_dim})"
            )
        if not bool(triggers.any(1).all()):
            raise InputError("a trigger is zero everywhere; expected a vector that changes its inputs")
        return triggers

    def _set(self, options: dict[str, Any]) -> None:
        rows = None
        if self._triggers is not None:
            rows = coefficient_rows(options["coefficients"], len(self._triggers))
            self.outlier_directions = combined(rows, self._triggers)
            self.num_kinds = len(self.outlier_directions)
        elif options["coefficients"] is None:
            self.num_kinds = 1
        else:
            raise InputError("coefficients are given with triggered vectors; expected them only with triggers")
        self._choose(options | {"coefficients": rows}, len(self.class_names), self._stream)
        changes = self.outlier_directions if self._changes is None else self._changes
        trigger = smallest(changes)
        self._hold({"a trigger": trigger, "outlier_size times a trigger": self.outlier_size * trigger})

    @property
    def class_sizes(self) -> tuple[int, ...]:
        """The number of vectors of each class that prompts are drawn from."""
        return tuple(len(members) for members in self._members)

    def identity(self) -> Mapping[str, object]:
        """Return the options, the classes, which vectors are drawn from, and a hash of the user's data as given."""
        members = tensor_hash(torch.cat(self._members))
        return self.settings() | {
            "class_names": self.class_names,
            "class_sizes": self.class_sizes,
            "members": members,
            **dict(zip(("vectors", "classes", "triggered", "trigger"), self._data, strict=True)),
        }

    def split(self, fraction: float = 0.5) -> tuple[Self, Self]:
        """Split into two distributions over disjoint vectors, to train and to test on.

        They share classes, triggers, options, and the centre and scale that all vectors together have.

        Args:
            fraction: the first distribution has this part of each class.

        Raises:
            InputError: for a fraction outside [0, 1], or one that leaves fewer than two vectors of a class to a side.
        """
        fraction = check_real("fraction", one_value("fraction", fraction), 0, 1)
        first, second = copy.copy(self), copy.copy(self)
        first._members, second._members = [], []
        for name, members in zip(self.class_names, self._members, strict=True):
            count = int(fraction * len(members) + 0.5)
            if not 2 <= count <= len(members) - 2:
                raise InputError(
                    f"a split at {fraction:g} gives {count} of the {len(members)} vectors of class {name!r} to the "
                    "first distribution; expected at least two on either side"
                )
            first._members.append(members[:count])
            second._members.append(members[count:])
        return first, second

    def _inputs(self, draws: Draws, out: Tensor) -> None:
        num_examples = draws.outliers.shape[1]
        if self._largest < torch.finfo(out.dtype).tiny:
            raise InputError(
                f"no entry of the vectors is above {self._largest:.3g}, which {out.dtype} cannot hold; "
                "expected a larger norm, larger vectors or float64"
            )
        items = self._items(draws, num_examples)
        out.copy_(self.vectors.index_select(0, items.view(-1)).view(out.shape))
        if not self.rules.fraction or not num_examples:
            return
        if self._changes is None:
            added = self.outlier_directions.index_select(0, draws.kinds.reshape(-1))
        else:
            added = self._changes.index_select(0, items[:, :num_examples].reshape(-1))
        sizes = draws.outliers.to(out.dtype).mul_(self.outlier_size)
        out[:, :num_examples].addcmul_(added.to(out.dtype).view(*sizes.shape, -1), sizes[:, :, None])

    def _items(self, draws: Draws, num_examples: int) -> Tensor:
        """``(B, N+Q)``: which vector each input is.

        The members of a class stand in a circle in random order, and a prompt starts at a uniform position of it: the
        first Q positions are its queries', the others its examples'.
        """
        num_queries = draws.patterns.shape[1] - num_examples
        for name, size in zip(self.class_names, self.class_sizes, strict=True):
            if size <= num_queries:
                raise InputError(
                    f"class {name!r} has {size} vectors and a prompt {num_queries} queries; expected more vectors than "
                    "queries, for no example may be a query (give more vectors, or ask for fewer queries)"
                )
        sizes = torch.tensor(self.class_sizes)
        starts = sizes.cumsum(0) - sizes
        size = sizes[draws.patterns]
        position = num_queries + index_below(draws.sources, size - num_queries)
        position[:, num_examples:] = torch.arange(num_queries)
        position += index_below(draws.prompts[:, None], size)
        return torch.cat(self._members)[starts[draws.patterns] + position % size]
