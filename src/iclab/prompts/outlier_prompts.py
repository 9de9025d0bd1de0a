"""`OutlierPrompts`: prompts of two-class tasks some of whose context examples lie.

Shapes: B prompts, N context examples, Q queries, d ambient dimension.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.prompts.batch import PER_POSITION, PER_PROMPT, Prompts


@dataclass(frozen=True, kw_only=True)
class OutlierPrompts(Prompts):
    """A batch of prompts of two-class tasks, with the latents behind them.

    ``labels`` are what a learner is shown, ``targets`` the clean labels in {+1, -1}; they differ at outliers alone.

    Attributes:
        tasks: ``(B, 2)`` int64, the index of the pattern whose inputs have label +1, and of the one with -1.
        patterns: ``(B, N+Q)`` int64, the index of the relevant pattern of each input: one of the two of its task.
        outliers: ``(B, N+Q)`` bool, which inputs carry an outlier.

    Raises:
        InputError: as `Prompts`; for latents of another shape or type; unless ``trusted``, also for a task of one
            pattern, an input whose pattern is none of its task's, and targets that contradict the patterns.
    """

    tasks: Tensor = field(metadata=PER_PROMPT)
    patterns: Tensor = field(metadata=PER_POSITION)
    outliers: Tensor = field(metadata=PER_POSITION)

    def _check_shapes(self) -> None:
        super()._check_shapes()
        whole = (self.batch_size, self.inputs.shape[1])
        for name, dtype, shape in (
            ("tasks", torch.int64, (self.batch_size, 2)),
            ("patterns", torch.int64, whole),
            ("outliers", torch.bool, whole),
        ):
            tensor = getattr(self, name)
            if not isinstance(tensor, Tensor) or tensor.dtype != dtype or tuple(tensor.shape) != shape:
                known = isinstance(tensor, Tensor)
                found = f"of {tensor.dtype} and shape {tuple(tensor.shape)}" if known else type(tensor).__name__
                raise InputError(f"{name} are {found}; expected a tensor of {dtype} and shape {shape}")
        if self.targets is None:
            raise InputError("outlier prompts without targets; expected the clean label +1 or -1 of every input")

    def _check_values(self) -> None:
        super()._check_values()
        plus, minus = self.tasks[:, :1], self.tasks[:, 1:]
        if bool((plus == minus).any()):
            raise InputError("a task has the same pattern for +1 and for -1; expected two different ones")
        if bool(((self.patterns != plus) & (self.patterns != minus)).any()):
            raise InputError("an input has a pattern that its task lacks; expected one of the task's two")
        clean = sign_of(self.patterns == plus, self.inputs.dtype)
        if self.targets is not None and bool((self.targets != clean).any()):
            raise InputError("a target contradicts its pattern; expected +1 for the task's first pattern, else -1")

    @property
    def example_outliers(self) -> Tensor:
        """``(B, N)``: which context examples are outliers."""
        return self.outliers[:, : self.num_examples]

    @property
    def same_pattern(self) -> Tensor:
        """``(B, Q, N)``: which context examples share the relevant pattern of which query."""
        examples, queries = self.patterns[:, : self.num_examples], self.patterns[:, self.num_examples :]
        return queries[:, :, None] == examples[:, None, :]


def sign_of(positive: Tensor, dtype: torch.dtype) -> Tensor:
    """+1 where ``positive``, else -1."""
    return torch.where(positive, 1.0, -1.0).to(dtype)
