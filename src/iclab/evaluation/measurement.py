"""`Measurement`: one number of one learner, with the per-prompt samples that its interval is computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from iclab.errors import InputError

# A statistic maps samples (..., k, P) to (...,): what is averaged over the P prompts, and how.
STATISTICS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    # One row: its mean over prompts.
    "mean": lambda s: s[..., 0, :].mean(-1),
    # Rows (S.beta, |S|^2): E[S.beta] / sqrt(E|S|^2), the correlation of <S, x> with <beta, x>.
    "alignment": lambda s: s[..., 0, :].mean(-1) / np.sqrt(np.maximum(s[..., 1, :].mean(-1), 1e-300)),
    # One number known without sampling.
    "exact": lambda s: s[..., 0, 0],
}


@dataclass(frozen=True)
class Measurement:
    """A measured number.

    Attributes:
        learner: what was measured, as the legend calls it.
        metric: what it is, e.g. ``squared_error``.
        samples: ``(k, P)``, k numbers for each of P prompts; ``(1, 1)`` where the number is exact.
        statistic: a key of `STATISTICS`.
        num_examples: length N of the test context, or ``None`` where there is none.
        keys: further coordinates of the number, e.g. ``{"gate": "mamba", "block": 1}``.
    """

    learner: str
    metric: str
    samples: np.ndarray
    statistic: str = "mean"
    num_examples: int | None = None
    keys: dict[str, str | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise InputError(f"the statistic is {self.statistic!r}; expected one of {', '.join(STATISTICS)}")
        if self.samples.ndim != 2 or self.samples.shape[1] < 1:
            raise InputError(f"samples have shape {self.samples.shape}; expected (numbers, prompts)")

    @property
    def value(self) -> float:
        """The statistic over all prompts."""
        return float(STATISTICS[self.statistic](self.samples))

    @property
    def num_prompts(self) -> int:
        """P; 0 for an exact number, which rests on no prompt."""
        return 0 if self.statistic == "exact" else self.samples.shape[1]

    @staticmethod
    def exact(
        learner: str,
        metric: str,
        value: float,
        num_examples: int | None = None,
        keys: dict[str, str | int | float] | None = None,
    ) -> Measurement:
        """A number that no sampling stands behind."""
        return Measurement(learner, metric, np.array([[float(value)]]), "exact", num_examples, keys or {})


def pooled_value(samples: Sequence[np.ndarray], statistic: str) -> float:
    """Mean over seeds of the statistic; ``samples`` holds one ``(k, P)`` array a seed."""
    return float(np.mean([STATISTICS[statistic](s) for s in samples]))
