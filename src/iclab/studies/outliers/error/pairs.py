"""Numbers made of several measured on the same prompts, such as the error at one placement of outliers less another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iclab.errors import InputError
from iclab.results.wording import number
from iclab.studies.outliers.names import ERROR

if TYPE_CHECKING:
    from iclab.results.results import Results


@dataclass(frozen=True)
class Term:
    """``weight`` times the error of a learner at a place."""

    weight: float
    learner: str
    key: Mapping[str, Any]


@dataclass(frozen=True)
class Combination:
    """A sum of terms, its interval, and what they rest on."""

    value: float
    low: float
    high: float
    interval: str
    num_seeds: int
    num_prompts: int

    @property
    def judged(self) -> bool:
        """Whether there are seeds enough (5) for an interval that says something of other seeds."""
        return self.interval == "bootstrap"

    def told(self, scale: float = 1.0) -> str:
        """``17.2 (15.1 to 19.3)``, in multiples of ``1/scale``."""
        if not np.isfinite(self.low):
            return number(scale * self.value)
        return f"{number(scale * self.value)} ({number(scale * self.low)} to {number(scale * self.high)})"


def combination(results: Results, terms: Sequence[Term]) -> Combination | None:
    """The sum of the terms, prompt by prompt: every one was measured on the same prompts up to what the test laws say.

    ``None`` where they were not all measured, or on different seeds.

    Raises:
        InputError: for a key that leaves more than one number a seed.
    """
    from iclab.evaluation.intervals import interval

    found = [_by_seed(results, term) for term in terms]
    seeds = sorted(found[0])
    if not seeds or any(sorted(rows) != seeds for rows in found):
        return None
    samples = [
        sum(term.weight * results.samples[rows[seed]] for term, rows in zip(terms, found, strict=True))
        for seed in seeds
    ]
    shape = interval(samples)  # type: ignore[arg-type]
    value = float(np.mean([s.mean() for s in samples]))  # type: ignore[union-attr]
    return Combination(value, shape.low, shape.high, shape.kind, len(seeds), samples[0].shape[1])  # type: ignore[union-attr]


def _by_seed(results: Results, term: Term) -> dict[int, int]:
    table = results.per_seed
    mask = (table["learner"] == term.learner) & (table["metric"] == ERROR)
    for column, value in term.key.items():
        mask &= table[column].isna() if value is None else (table[column] == value).fillna(False).astype(bool)
    rows = table[mask]
    if rows["seed"].duplicated().any():
        raise InputError(
            f"{dict(term.key)} leaves several numbers of {term.learner!r} a seed; give a value for each axis"
        )
    return dict(zip(rows["seed"].tolist(), rows.index.tolist(), strict=True))
