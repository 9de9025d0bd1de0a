"""Gates that depend on labels alone, in logs, for torch: the one-layer model's ``G_j``.

The same weights as `iclab.theory.LabelWeight`, which integrates them; this file evaluates them on prompts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from numbers import Real

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from iclab.errors import InputError, check_positive
from iclab.models.gate_weights import log_weights
from iclab.ops import gated_state

MODEL_GATES = ("mamba", "no_decay", "exp", "linear")
_SMALLEST_RHO = 1e-30  # the core counts numbers below the normal ones as zero
_LARGEST_LOG = 80.0  # exp(80) squared still fits a float32 sum of many examples


@dataclass(frozen=True)
class LabelGate:
    """``G_j / s(0) = s(y_j)/s(0) * prod_{k>j} (1 - f(y_k)) * c0``.

    See `iclab.theory.LabelWeight` for the four gates.
    """

    gate: str
    rho: float
    b: float

    def __post_init__(self) -> None:
        if self.gate not in MODEL_GATES:
            raise InputError(f"the gate is {self.gate!r}; expected one of {', '.join(MODEL_GATES)}")
        check_positive("rho", self.rho)
        if isinstance(self.b, bool) or not isinstance(self.b, Real) or not -1e4 < self.b < 1e4:
            raise InputError(f"b is {self.b!r}; expected a finite number between -10000 and 10000")

    def log_gain(self, labels: Tensor) -> Tensor:
        """Return ``log(s(y)/s(0))``, the shape of ``labels``.

        Raises:
            InputError: when a weight leaves the range of floating point: large labels with the gate ``exp``, or with a
                sigmoid gate whose ``b`` is below -60 or so.
        """
        if self.gate == "linear":
            return torch.zeros_like(labels)
        u = labels / self.rho
        if self.gate == "exp":
            if labels.numel() and float(u.max()) > _LARGEST_LOG:
                raise InputError(
                    f"the exponential gate overflows: label {float(labels.max()):.4g} at rho = {self.rho:g} has weight "
                    f"exp({float(u.max()):.4g}); raise rho or use a sigmoid gate"
                )
            return u
        gain = logsigmoid(u + self.b) - self._log_unit(labels.dtype)
        if not self._within_range() and labels.numel():
            size = float((gain + labels.abs().clamp(min=1).log()).max())
            if size > _LARGEST_LOG:
                raise InputError(
                    f"the gate at b = {self.b:g} overflows: label {float(labels.max()):.4g} at rho = {self.rho:g} has "
                    f"a weight of exp({size:.4g}) times that of label 0; raise b or rho, or clip the labels"
                )
        return gain

    def _within_range(self) -> bool:
        """Whether no label's gain can leave the range of floating point: it is at most ``1/sigmoid(b)``."""
        return self.b >= -_LARGEST_LOG / 2

    def log_keep(self, labels: Tensor) -> Tensor:
        """Return ``log(1 - f(y))``, what an example leaves of the state before it; the shape of ``labels``."""
        return logsigmoid(-(labels / self.rho + self.b)) if self.gate == "mamba" else torch.zeros_like(labels)

    @lru_cache(maxsize=8)  # noqa: B019 - a frozen value with two or three dtypes
    def _log_unit(self, dtype: torch.dtype) -> Tensor:
        """``log sigmoid(b)``, a number in the dtype of the labels."""
        return logsigmoid(torch.tensor(self.b, dtype=dtype))

    @lru_cache(maxsize=8)  # noqa: B019
    def log_query(self) -> float:
        """``log c0``: what the query token leaves of the state."""
        return float(logsigmoid(torch.tensor(-self.b, dtype=torch.float64))) if self.gate == "mamba" else 0.0

    def log_weights(self, labels: Tensor) -> Tensor:
        """Return ``log(G_j / s(0))`` at the query after the last example, the shape of ``labels (..., N)``."""
        if self._compiles(labels):
            return self._compiled(labels, weighted=False)
        gain = self.log_gain(labels)
        if self.gate != "mamba":
            return gain
        return log_weights(gain, self.log_keep(labels)).add_(self.log_query())

    def weighted_labels(self, labels: Tensor) -> Tensor:
        """Return ``G_j y_j / (s(0) N)``, what each example adds to the state at the query; the shape of ``labels``."""
        if self._compiles(labels):
            return self._compiled(labels, weighted=True)
        return torch.exp(self.log_weights(labels)) * labels / max(labels.shape[-1], 1)

    def _compiles(self, labels: Tensor) -> bool:
        return self.gate == "mamba" and self._within_range() and self.rho > _SMALLEST_RHO and gated_state.serves(labels)

    def _compiled(self, labels: Tensor, weighted: bool) -> Tensor:
        unit = float(self._log_unit(torch.float64))
        return gated_state.gate_weights(labels, self.rho, self.b, unit, self.log_query(), weighted=weighted)
