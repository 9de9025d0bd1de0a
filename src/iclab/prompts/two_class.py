"""What two-class prompts with outliers share: tasks, patterns, outliers, labels, drawn for many chunks.

Shapes: B prompts, N context examples, Q queries, d ambient dimension, C chunks of 8 prompts.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.prompts.arguments import one_value
from iclab.prompts.distribution import PromptDistribution
from iclab.prompts.drawn import CHUNK
from iclab.prompts.outlier_prompts import OutlierPrompts, sign_of
from iclab.prompts.outlier_rules import OutlierRules
from iclab.prompts.stream import Stream
from iclab.prompts.task_pairs import task_pairs
from iclab.prompts.values import check_choice, check_finite, check_held, check_real

_PATTERN, _SOURCE, _SIZE, _OUTLIER, _KIND, _LABEL = range(6)


@dataclass(frozen=True)
class Draws:
    """What the inputs of ``B = 8 C`` prompts are made of.

    Attributes:
        patterns: ``(B, N+Q)`` int64.
        outliers: ``(B, N)`` bool.
        kinds: ``(B, N)`` int64, which of the distribution's outliers an example would carry.
        sources, sizes: ``(B, N+Q)``, float64 and uniform on (0, 1): for the distribution's own use.
        prompts: ``(B,)`` float64 and uniform on (0, 1): likewise, one for each prompt.
        extras: ``C`` tensors of the distribution's own, one a chunk; empty unless it overrides ``_extra``.
    """

    patterns: Tensor
    outliers: Tensor
    kinds: Tensor
    sources: Tensor
    sizes: Tensor
    prompts: Tensor
    extras: list[Tensor]


class TwoClassDistribution(PromptDistribution):
    """Prompts whose task is an ordered pair of patterns and whose context may hold outliers.

    Each prompt's task is uniform on ``task_pairs``. Each input, query or example, has the task's first pattern (label
    +1) or its second (-1) with probability 1/2. `OutlierRules` says which examples are outliers and what labels they
    show; queries are clean. Families say what the inputs are.

    Numbers are drawn in the same order whatever the options. So two over the same patterns give, from the same
    stream, prompts with the same patterns and, over the same tasks, with the same tasks and clean parts: their results
    can be compared in pairs.
    """

    chunks_at_once = 32
    label_variance = 1.0  # both labels have probability 1/2
    binary_labels = True
    task_pairs: list[tuple[int, int]]
    rules: OutlierRules
    outlier_size: float
    input_noise: float
    num_kinds: int
    _sizes: dict[str, float]
    _fixed: dict[str, Any]  # the arguments that make the patterns
    _options: dict[str, Any]  # the other ones

    def _choose(self, options: dict[str, Any], patterns: int, stream: Stream) -> None:
        """Set everything but the patterns, of which there are so many, and keep the options as plain values.

        A user's arrays and generators may change or run out; ``coefficients`` must be plain already.
        """
        tasks = options["tasks"]
        self.task_pairs = task_pairs(tasks, patterns, stream.child("tasks"))
        self._pairs = torch.tensor(self.task_pairs)
        kept = ("tasks", "coefficients", "label_rule")
        options = {name: value if name in kept else one_value(name, value) for name, value in options.items()}
        if not isinstance(tasks, str | int):
            options["tasks"] = tuple(self.task_pairs)
        self._options = options
        rules = ("outlier_fraction", "label_rule", "target_label", "placement", "sampling")
        self.rules = OutlierRules(*(options[name] for name in rules))
        self.outlier_size = check_real("outlier_size", options["outlier_size"], 0)
        self.input_noise = check_real("input_noise", options["input_noise"], 0)
        self._hold({"outlier_size": self.outlier_size, "input_noise": self.input_noise})

    def _hold(self, sizes: dict[str, float]) -> None:
        """Add to the sizes that a dtype must hold, by what they are: float64 here, that of the prompts at each draw."""
        check_held(sizes, torch.float64)
        self._sizes = getattr(self, "_sizes", {}) | sizes

    @abstractmethod
    def _set(self, options: dict[str, Any]) -> None:
        """`_choose`, and what a family adds to it."""

    def settings(self) -> dict[str, Any]:
        """The arguments that make this distribution again, without tensors of a user's data."""
        return self._fixed | self._options

    def identity(self) -> Mapping[str, object]:
        return self.settings()

    def replace(self, **changes: Any) -> Self:
        """Another distribution over the same patterns: the test distribution of a training distribution, say.

        Raises:
            InputError: as the constructor; also for what would change the patterns, and unknown names.
        """
        for name in changes:
            if name in self._fixed:
                raise InputError(f"replace keeps the patterns and {name} would change them; make a new one instead")
            check_choice("an argument of replace", name, list(self._options))
        distribution = copy.copy(self)
        distribution._set(self._options | changes)
        return distribution

    def scalars(self) -> Mapping[str, float]:
        names = ("outlier_fraction", "outlier_size", "irrelevant_range", "orthogonal", "input_noise")
        return {name: float(self._options[name]) for name in names if name in self._options}

    def adjusted(self, **values: float) -> Self:
        for name in values:
            check_choice("a scalar of a curriculum", name, ["num_examples", *self.scalars()])
        return self.replace(**values)

    @abstractmethod
    def _inputs(self, draws: Draws, out: Tensor) -> None:
        """Fill ``out (B, N+Q, d)`` with the inputs."""

    def _extra(self, generator: torch.Generator, num_examples: int) -> Tensor | None:
        """What a distribution draws for a chunk beyond the uniform numbers of `Draws`; drawn last."""
        return None

    def sample(
        self,
        stream: Stream,
        num_prompts: int,
        num_examples: int,
        num_queries: int = 1,
        *,
        start: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> OutlierPrompts:
        """As `PromptDistribution.sample`, with the latents of the prompts."""
        prompts = super().sample(stream, num_prompts, num_examples, num_queries, start=start, dtype=dtype)
        assert isinstance(prompts, OutlierPrompts)
        return prompts

    def draw_chunks(
        self,
        generators: Sequence[torch.Generator],
        num_examples: int,
        num_queries: int,
        dtype: torch.dtype,
        buffer: Tensor | None = None,
    ) -> OutlierPrompts:
        check_held(self._sizes, dtype)
        length, dim = num_examples + num_queries, self.ambient_dim
        noise = torch.empty(len(generators), CHUNK, length, dim, dtype=dtype) if self.input_noise else None
        of_prompt, of_position, extras = self._numbers(generators, num_examples, length, noise)
        of_context = of_position[:, :, :num_examples]

        tasks = self._pairs[index_below(of_prompt[0], len(self._pairs))]
        positive = of_position[_PATTERN] < 0.5
        patterns = torch.where(positive, tasks[:, :1], tasks[:, 1:])
        targets = sign_of(positive, dtype)
        chosen = self.rules.outliers(of_context[_OUTLIER])
        kinds = index_below(of_context[_KIND], self.num_kinds)
        shown = self.rules.labels(targets[:, :num_examples], kinds, of_context[_LABEL])
        labels, outliers = targets.clone(), torch.zeros(targets.shape, dtype=torch.bool)
        labels[:, :num_examples] = torch.where(chosen, shown, targets[:, :num_examples])
        outliers[:, :num_examples] = chosen

        inputs = torch.empty(len(tasks), length, dim, dtype=dtype) if buffer is None else buffer
        draws = Draws(patterns, chosen, kinds, of_position[_SOURCE], of_position[_SIZE], of_prompt[1], extras)
        self._inputs(draws, inputs)
        if noise is not None:
            inputs.add_(noise.view(inputs.shape), alpha=self.input_noise)
        check_finite(f"an input in {dtype}", inputs, "make the norms and sizes smaller, or use float64")
        return OutlierPrompts(
            inputs, labels, num_examples, targets, tasks=tasks, patterns=patterns, outliers=outliers, trusted=True
        )

    def _numbers(
        self, generators: Sequence[torch.Generator], num_examples: int, length: int, noise: Tensor | None
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Uniform numbers ``(2, B)`` and ``(6, B, N+Q)``, and further ones; ``noise`` is filled with Gaussian ones.

        The numbers of the prompts come before those of the positions: a prompt has the same task at every length.
        """
        of_prompt = torch.empty(len(generators), 2, CHUNK, dtype=torch.float64)
        of_position = torch.empty(len(generators), 6, CHUNK, length, dtype=torch.float64)
        extras = []
        for chunk, generator in enumerate(generators):
            of_prompt[chunk].uniform_(generator=generator)
            of_position[chunk].uniform_(generator=generator)
            if noise is not None:
                noise[chunk].normal_(generator=generator)
            extra = self._extra(generator, num_examples)
            if extra is not None:
                extras.append(extra)
        return of_prompt.transpose(0, 1).flatten(1, 2), of_position.transpose(0, 1).flatten(1, 2), extras


def index_below(uniforms: Tensor, count: int | Tensor) -> Tensor:
    """Indices uniform on ``0 .. count - 1`` from numbers uniform on [0, 1)."""
    return (uniforms * count).long()
