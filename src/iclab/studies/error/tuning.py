"""What kernel ridge was tuned to, as measurements of a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iclab.estimators.tuning import Tuned
    from iclab.evaluation import Measurement

BANDWIDTH, PENALTY = "tuned_bandwidth", "tuned_penalty"
"""Metrics of exact rows: what was chosen at the tuned length ``num_examples``."""


def tuning_measurements(label: str, tuned: Tuned) -> list[Measurement]:
    """The bandwidth and the penalty that were chosen at each tuned length."""
    from iclab.estimators import KernelRidge
    from iclab.evaluation import Measurement

    found = []
    for length, chosen in zip(tuned.record.num_examples, tuned.estimators, strict=True):
        assert isinstance(chosen, KernelRidge)  # of the section's own grid
        bandwidth = float(getattr(chosen.kernel, "bandwidth", float("nan")))
        found.append(Measurement.exact(label, BANDWIDTH, bandwidth, length))
        found.append(Measurement.exact(label, PENALTY, chosen.penalty, length))
    return found
