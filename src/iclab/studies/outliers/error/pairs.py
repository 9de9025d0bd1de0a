"""Numbers made of several measured on the same prompts, such as the error at one placement of outliers less another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iclab.errors import InputError
from iclab.results.results import Difference
from iclab.studies.outliers.names import ERROR

if TYPE_CHECKING:
    from iclab.results.results import Results


@dataclass(frozen=True)
class Term:
    """``weight`` times the error of a learner at a grid point."""

    weight: float
    learner: str
    key: Mapping[str, Any]


def combination(results: Results, terms: Sequence[Term]) -> Difference | None:
    """Return the sum of the terms, prompt by prompt: all were measured on the same prompts up to what the test
    distributions say.

    Returns:
        ``None`` where they were not all measured, or on different seeds.

    Raises:
        InputError: for a key that leaves more than one number a seed.
    """
    from iclab.evaluation.intervals import interval

    found = [_by_seed(results, term) for term in terms]
    seeds = sorted(found[0])
    if not seeds or any(sorted(rows) != seeds for rows in found):
        return None
    rows_of = [[rows[seed] for rows in found] for seed in seeds]
    weights = [term.weight for term in terms]
    samples = [sum(w * results.samples[row] for w, row in zip(weights, rows, strict=True)) for rows in rows_of]
    samples = [np.asarray(sample) for sample in samples]
    ends = interval(samples)
    values = tuple(float(sample.mean()) for sample in samples)
    return Difference(float(np.mean(values)), ends.low, ends.high, ends.kind, ends.level, samples[0].shape[1], values)


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
