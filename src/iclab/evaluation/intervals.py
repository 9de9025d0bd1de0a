"""Intervals by resampling: seeds first, then the prompts within each seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.special import ndtr, stdtrit

from iclab.errors import InputError, check_integer
from iclab.evaluation.measurement import STATISTICS, check_samples
from iclab.prompts import Stream

MIN_SEEDS_FOR_BAND = 5
_COMBINATIONS = 20_000


@dataclass(frozen=True)
class Interval:
    """Where a number lies.

    Attributes:
        low, high: its ends.
        kind: ``none`` (nothing to resample, the ends are NaN: one seed with one number, or samples that are not all
            finite), ``bootstrap`` (5 seeds or more: seeds, then prompts resampled), ``range`` (2 to 4 seeds: smallest
            and largest seed), ``prompts`` (one seed: prompts resampled; says nothing about other seeds) or ``exact``
            (its ends may be infinite; NaN where a seed's number is NaN).
        level: coverage of a resampling interval; ``nan`` for the others.
    """

    low: float
    high: float
    kind: str
    level: float


def interval(
    samples: Sequence[np.ndarray], statistic: str = "mean", *, level: float = 0.95, resamples: int = 1000
) -> Interval:
    """Compute an interval of the mean over seeds of a statistic.

    Few seeds make a percentile interval too short: with five, one at 95 % covers 84 %. It is therefore taken at the
    expanded level ``Phi(-sqrt(n/(n-1)) t_{n-1})`` for n seeds, which the coverage tests of this project hold to its
    stated level.

    Args:
        samples: one ``(k, P)`` array for each seed.
        statistic: a key of `STATISTICS`.
        level: coverage.
        resamples: at least 1, of the prompts of each seed; drawn from a fixed stream, so the interval is reproducible.

    Raises:
        InputError: for no seeds, samples that do not fit the statistic (`check_samples`), or a level or a number of
            resamples out of range.

    Reference: Hesterberg, The American Statistician 69, 2015, section on the expanded percentile interval.
    """
    if not isinstance(samples, Sequence) or not all(isinstance(s, np.ndarray) and s.ndim == 2 for s in samples):
        found = f"an array of shape {samples.shape}" if isinstance(samples, np.ndarray) else f"{samples!r}"[:60]
        raise InputError(f"samples are {found}; expected a list with one array of shape (k, prompts) for each seed")
    if not samples:
        raise InputError("no seeds to compute an interval from; expected at least one")
    level, resamples = check_level(level), check_integer("resamples", resamples, 1)
    for of_seed in samples:
        check_samples(of_seed, statistic)
    compute = STATISTICS[statistic]
    if statistic == "exact":
        values = [float(compute(s)) for s in samples]
        # np.min, unlike min, is NaN wherever a value is.
        return Interval(float(np.min(values)), float(np.max(values)), "exact", float("nan"))
    single = len(samples) == 1 and samples[0].shape[1] == 1
    if single or not all(np.isfinite(of_seed).all() for of_seed in samples):
        return Interval(float("nan"), float("nan"), "none", float("nan"))
    values = np.array([compute(s) for s in samples])
    if 1 < len(samples) < MIN_SEEDS_FOR_BAND:
        return Interval(float(values.min()), float(values.max()), "range", float("nan"))
    generator = Stream(0).child("bootstrap").numpy(0)
    draws = np.stack([_resampled_prompts(s, statistic, generator, resamples) for s in samples])
    tail = (1 - level) / 2
    if len(samples) > 1:
        size = (_COMBINATIONS, len(samples))
        estimates = draws[generator.integers(len(samples), size=size), generator.integers(resamples, size=size)].mean(1)
        tail = _expanded_tail(tail, len(samples))
    else:
        estimates = draws[0]
    low, high = np.quantile(estimates, [tail, 1 - tail])
    return Interval(float(low), float(high), "bootstrap" if len(samples) > 1 else "prompts", level)


def check_level(level: float) -> float:
    """``level`` as a ``float`` between 0 and 1; raise `InputError` otherwise."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
        raise InputError(f"level is {level!r}; expected a number between 0 and 1")
    return float(level)


def _expanded_tail(tail: float, seeds: int) -> float:
    """The tail at which a percentile interval over ``seeds`` draws is as wide as Student's."""
    return float(ndtr(np.sqrt(seeds / (seeds - 1)) * stdtrit(seeds - 1, tail)))


def _resampled_prompts(
    samples: np.ndarray, statistic: str, generator: np.random.Generator, resamples: int
) -> np.ndarray:
    """The statistic on ``resamples`` draws of the prompts with replacement, in blocks of bounded memory."""
    prompts = samples.shape[1]
    block = max(1, 2_000_000 // (prompts * samples.shape[0]))
    parts = []
    for start in range(0, resamples, block):
        picks = generator.integers(prompts, size=(min(block, resamples - start), prompts))
        parts.append(STATISTICS[statistic](np.moveaxis(samples[:, picks], 0, 1)))
    return np.concatenate(parts)
