"""Scalar weights ``G_j`` of a context example: linear attention, exponential tilt, retention, sigmoid gates.

Every one of them is ``G_j = s(y_j) * prod_{j<k<=N} (1 - f(y_k)) * c0``: a gain ``s`` of the example's own label, a
forgetting ``f`` of the labels after it, and a constant ``c0`` from the query. So one set of formulas serves them all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from iclab.errors import InputError, check_number, check_positive

GATES = ("mamba", "no_decay", "exp", "linear", "retention")


@dataclass(frozen=True)
class LabelWeight:
    """A scalar weight that depends on labels and order alone.

    Attributes:
        gate: ``mamba``: ``s = sigmoid(y/rho + b)``, ``f = s``, ``c0 = 1 - sigmoid(b)`` (arXiv 2510.12026);
            ``no_decay``: the same ``s``, nothing forgotten; ``exp``: ``s = exp(y/rho + b)``, the label tilt of softmax
            attention, unnormalised; ``linear``: ``s = 1``; ``retention``: ``s = 1, f = 1 - retention``.
        rho: temperature of the label, > 0.
        b: bias of the gate.
        retention: ``lambda`` in (0, 1], used by ``retention`` alone.

    Gains are divided by ``s(0)`` (``sigmoid(b)`` or ``exp(b)``), which is tiny for the useful, negative ``b``.
    """

    gate: str = "mamba"
    rho: float = 1.0
    b: float = 0.0
    retention: float = 1.0

    def __post_init__(self) -> None:
        if self.gate not in GATES:
            raise InputError(f"the gate is {self.gate!r}; expected one of {', '.join(GATES)}")
        check_positive("rho", self.rho)
        check_number("b", self.b)
        if not 0 < check_number("retention", self.retention) <= 1:
            raise InputError(f"retention is {self.retention}; expected a number in (0, 1]")

    def gain(self, y: np.ndarray) -> np.ndarray:
        """Return ``s(y) / s(0)``, the shape of ``y``."""
        return np.exp(self.log_gain(y))

    def log_gain(self, y: np.ndarray) -> np.ndarray:
        """Return ``log(s(y) / s(0))``, the shape of ``y``."""
        match self.gate:
            case "mamba" | "no_decay":
                return log_expit(y / self.rho + self.b) - log_expit(self.b)
            case "exp":
                return y / self.rho
            case _:
                return np.zeros_like(y)

    def forgetting(self, y: np.ndarray) -> np.ndarray:
        """Return ``f(y)``, the fraction of the state that an example with label ``y`` erases."""
        match self.gate:
            case "mamba":
                return expit(y / self.rho + self.b)
            case "retention":
                return np.full_like(y, 1 - self.retention)
            case _:
                return np.zeros_like(y)

    @property
    def query_factor(self) -> float:
        """``c0``: what the query token, whose label channel is 0, leaves of the state."""
        return float(expit(-self.b)) if self.gate == "mamba" else 1.0
