"""Gates as measurements: by distance from the query, by rank among the clean examples, and how fast they decay.

Shapes: L layers, B prompts, N examples.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from iclab.evaluation.measurement import Measurement

_SMALLEST = 1e-300  # what a ratio to leaves the range of float64, since gates are at most 1
_ENOUGH = 0.5  # of the prompts must have a clean example of a rank for the rank to count


def gate_measurements(
    learner: str, log_gates: Tensor, outliers: Tensor, size: float, fitted: int
) -> Iterator[Measurement]:
    """Of one learner under one test law.

    Args:
        learner: its name.
        log_gates: ``(L, B, N)``; in float64 gates keep to 1e-308 what in float32 would be zero below 1e-45.
        outliers: ``(B, N)`` bool.
        size: kappa_a', a key of the measurements.
        fitted: how many of the nearest clean examples the decay is fitted on.

    Yields, with the keys ``size`` and ``layer``:
        ``gate`` by ``group`` (``outlier`` or ``clean``) and ``distance`` (1 is the last example of the context);
        ``ranked_gate`` by ``rank`` (1 is the clean example nearest to the query);
        ``mean_gate`` by ``group``; ``outlier_ratio``, the mean of all outliers over that of the nearest clean example;
        ``decay`` and ``decay_start``, q and c of the fit ``c q^(j-1)`` to the means of the first ranks, in logs;
        ``over_bound``, the least of ``G_j / (2^-(j-1) G_1)`` for j from 2 to ``fitted``.

    Ratios to a mean of zero, and the decay where one of its means is zero, are left out: they are no numbers.
    """
    lies, ranks = outliers.numpy(), clean_ranks(outliers.numpy())
    for layer, values in enumerate(log_gates.double().exp().numpy(), start=1):
        keys: dict[str, str | int | float] = {"size": size, "layer": layer}
        for group, chosen in (("outlier", lies), ("clean", ~lies)):
            for point in range(values.shape[1]):
                found = values[chosen[:, point], point]
                if len(found):
                    distance = values.shape[1] - point
                    yield _mean(learner, "gate", found, {**keys, "group": group, "distance": distance})
            if chosen.any():
                yield _mean(learner, "mean_gate", values[chosen], {**keys, "group": group})
        means = []
        for rank in range(1, values.shape[1] + 1):
            found = values[ranks == rank]
            if len(found) < _ENOUGH * len(values):
                break
            means.append(found.mean())
            yield _mean(learner, "ranked_gate", found, {**keys, "rank": rank})
        first = np.array(means[:fitted])
        if not len(first) or first[0] < _SMALLEST:
            continue
        if lies.any():
            yield _number(learner, "outlier_ratio", values[lies].mean() / first[0], keys)
        if len(first) >= 2:
            if (first > 0).all():
                start, factor = geometric(first)
                yield _number(learner, "decay", factor, keys)
                yield _number(learner, "decay_start", start, keys)
            shares = np.ldexp(first[1:] / first[0], np.arange(1, len(first)))
            yield _number(learner, "over_bound", float(shares.min()), keys)


def clean_ranks(outliers: np.ndarray) -> np.ndarray:
    """``(B, N)``: 1 for the clean example nearest to the query, which comes last, 2 for the next; 0 for outliers."""
    clean = ~outliers
    return clean * clean[:, ::-1].cumsum(1)[:, ::-1]


def geometric(means: np.ndarray) -> tuple[float, float]:
    """c and q of ``c q^(j-1)``, j = 1, 2, ..., by least squares in logs."""
    slope, start = np.polyfit(np.arange(len(means)), np.log(means), 1)
    return float(np.exp(start)), float(np.exp(slope))


def _mean(learner: str, metric: str, values: np.ndarray, keys: dict[str, str | int | float]) -> Measurement:
    return Measurement(learner, metric, values[None], keys=keys)


def _number(learner: str, metric: str, value: float, keys: dict[str, str | int | float]) -> Measurement:
    return Measurement(learner, metric, np.array([[value]]), keys=keys)
