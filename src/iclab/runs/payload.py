"""A measured cell as bytes: the samples as safetensors, the rest as JSON values."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save

from iclab import __version__
from iclab.errors import InputError
from iclab.experiments.identity import canonical_json
from iclab.experiments.kind import Config, ExperimentKind

if TYPE_CHECKING:
    from iclab.evaluation.measurement import Measurement

COORDINATES = ("experiment", "cell", "learner", "seed", "num_examples", "metric", "statistic")
NUMBERS = ("value", "low", "high", "level", "interval", "num_prompts", "num_seeds", "seed_values")
RESERVED = frozenset(COORDINATES + NUMBERS)


@dataclass(frozen=True)
class Measured:
    """A finished cell: ``record`` goes to ``cell.json``, ``values`` to ``values.safetensors``."""

    cell: str
    record: dict[str, Any]
    values: bytes


@dataclass(frozen=True)
class Failed:
    """A cell that raised: one line for the terminal, and all of it for ``error.txt``."""

    cell: str
    reason: str
    details: str


def measure(cell: str, kind: ExperimentKind, config: Config, threads: int) -> Measured | Failed:
    """Run one cell. Whatever its code raises fails this cell alone."""
    start = time.monotonic()
    try:
        measurements = list(kind.run_cell(config))
        record, values = encode(measurements)
    except Exception as error:
        # The boundary between the laboratory and the code of an experiment: its error is reported, not handled.
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return Failed(cell, reason, traceback.format_exc())
    seconds = round(time.monotonic() - start, 3)
    return Measured(cell, {**record, "seconds": seconds, "threads": threads, "iclab": __version__}, values)


def encode(measurements: Sequence[Measurement]) -> tuple[dict[str, Any], bytes]:
    """Descriptions and samples of measurements; tensor ``i`` holds the samples of measurement ``i``.

    Raises:
        InputError: for a cell that measured nothing or one thing twice, samples that are not finite (save exact
            numbers, which may be infinite), and keys named like a column of the results.
    """
    if not measurements:
        raise InputError("the cell measured nothing; expected at least one measurement")
    descriptions: list[dict[str, Any]] = []
    tensors: dict[str, np.ndarray] = {}
    seen: set[str] = set()
    for number, measurement in enumerate(measurements):
        name = f"{measurement.metric} of {measurement.learner} at num_examples={measurement.num_examples}"
        clash = RESERVED & measurement.keys.keys()
        if clash:
            raise InputError(f"{name} has the key {min(clash)!r}, a column of the results; call the key otherwise")
        samples = np.ascontiguousarray(measurement.samples)
        bad = int((~np.isfinite(samples)).sum())
        if bad and measurement.statistic != "exact":
            raise InputError(f"{name} is not finite in {bad} of {samples.size} samples; the learner diverged")
        description = {
            "learner": measurement.learner,
            "metric": measurement.metric,
            "statistic": measurement.statistic,
            "num_examples": None if measurement.num_examples is None else int(measurement.num_examples),
            "keys": {key: _plain(value) for key, value in measurement.keys.items()},
        }
        identity = canonical_json(description)
        if identity in seen:
            raise InputError(f"{name} is measured twice with the keys {measurement.keys}; tell them apart by a key")
        seen.add(identity)
        descriptions.append(description)
        tensors[str(number)] = samples
    return {"measurements": descriptions}, save(tensors)


def _plain(value: object) -> object:
    """A NumPy scalar as a Python number."""
    return value.item() if isinstance(value, np.generic) else value
