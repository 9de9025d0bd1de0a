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


ROWS = {"mean": 1, "alignment": 2, "exact": 1}
"""Numbers of a prompt that each statistic takes."""


def check_samples(samples: object, statistic: str, name: str = "the samples") -> None:
    """Raise `InputError` unless ``samples`` are numbers of shape ``(rows of the statistic, P)`` with P >= 1, and P = 1
    for an exact number. Infinite and NaN entries pass: see `Measurement.value` and `iclab.evaluation.interval`."""
    if statistic not in STATISTICS:
        raise InputError(f"the statistic is {statistic!r}; expected one of {', '.join(STATISTICS)}")
    if not isinstance(samples, np.ndarray):
        raise InputError(f"{name} are {samples!r:.60}; expected an array of real numbers")
    if samples.dtype.kind not in "fiub":
        raise InputError(f"{name} are of the type {samples.dtype}; expected real numbers")
    rows = ROWS[statistic]
    if samples.ndim != 2 or samples.shape[0] != rows or samples.shape[1] < 1:
        raise InputError(f"{name} have shape {samples.shape}; expected ({rows}, prompts) with at least one prompt")
    if statistic == "exact" and samples.shape[1] != 1:
        raise InputError(f"{name} have shape {samples.shape}; expected (1, 1) for an exact number")


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
        check_samples(self.samples, self.statistic, f"the samples of {self.metric} of {self.learner}")

    @property
    def value(self) -> float:
        """The statistic over all prompts; NaN where a sample is NaN, infinite or NaN where one is infinite."""
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
        """Make a measurement of a number that no sampling stands behind.

        Args:
            learner, metric, num_examples, keys: as in `Measurement`.
            value: the number.
        """
        return Measurement(learner, metric, np.array([[float(value)]]), "exact", num_examples, keys or {})


def pooled_value(samples: Sequence[np.ndarray], statistic: str) -> float:
    """Average a statistic over seeds.

    Entries that are not finite make it infinite or NaN.

    Args:
        samples: one ``(k, P)`` array a seed.
        statistic: a key of `STATISTICS`.

    Raises:
        InputError: for no seeds, or samples that do not fit the statistic.
    """
    if not len(samples):
        raise InputError("no seeds to average over; expected at least one")
    for of_seed in samples:
        check_samples(of_seed, statistic)
    return float(np.mean([STATISTICS[statistic](s) for s in samples]))
