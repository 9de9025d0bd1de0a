"""A measured cell as bytes: the samples as safetensors, the rest as JSON values."""

from __future__ import annotations

import math
import os
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save

from iclab import __version__
from iclab.config.identity import canonical_json
from iclab.config.validation import validate
from iclab.errors import InputError, check_integer, one_line
from iclab.evaluation.measurement import STATISTICS
from iclab.execution import Execution, executing
from iclab.experiments.registry import load_kind
from iclab.results.columns import LARGEST_INTEGER, RESERVED
from iclab.runs.environment import scan_backend
from iclab.runs.jobs import Failed, Job, Measured
from iclab.runs.signals import Stopped
from iclab.runs.threads import torch_threads

if TYPE_CHECKING:
    from iclab.evaluation.measurement import Measurement


def measure(job: Job, execution: Execution) -> Measured | Failed:
    """Run one cell in this process. Whatever its code raises, exits or forks fails this cell alone.

    Args:
        job: the cell.
        execution: threads, device and folders of trainings.

    Returns:
        What to store: `Measured` or `Failed`; both can be pickled.

    Raises:
        Stopped: on a signal that ends the run; nothing else.
    """
    start = time.monotonic()
    try:
        with _contained():
            kind = load_kind(job.kind)
            typed = validate(kind.config, job.config, f"cell {job.cell}: ")
            code = kind.code(typed)
            with torch_threads(execution.threads), executing(execution):
                record, values = encode(list(kind.run_cell(typed)))
    except Stopped:
        raise
    except BaseException as error:
        # The boundary between the laboratory and the code of an experiment: its error is reported, not handled.
        # `sys.exit` in a cell is one, too.
        return Failed(job.cell, reason_of(error), "".join(traceback.format_exception(error)))
    seconds = round(time.monotonic() - start, 3)
    made_by = {"iclab": __version__, "code": code, "scan_backend": scan_backend()}
    return Measured(job.cell, {**record, "seconds": seconds, **execution.recorded, **made_by}, values)


@contextmanager
def _contained() -> Iterator[None]:
    """Undo what the code of a cell may do to its process: a fork that comes back, another working folder."""
    process = os.getpid()
    folder = os.open(".", os.O_RDONLY)
    try:
        yield
    finally:
        if os.getpid() != process:
            # A copy of this process that the cell forked: it must neither answer nor write to the run folder.
            os._exit(0)
        with suppress(OSError):
            os.fchdir(folder)
        os.close(folder)


def reason_of(error: BaseException) -> str:
    """The error on one line of bounded length."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # the message is the user's code as well
        message = ""
    return one_line(f"{name}: {message}" if message.strip() else name)


def encode(measurements: Sequence[Measurement]) -> tuple[dict[str, Any], bytes]:
    """Descriptions and samples of measurements; tensor ``i`` holds the samples of measurement ``i``.

    Raises:
        InputError: for a cell that measured nothing or one thing twice, samples that are not finite (save exact
            numbers, which may be infinite), and names and keys that the tables cannot hold.
    """
    if not measurements:
        raise InputError("the cell measured nothing; expected at least one measurement")
    descriptions: list[dict[str, Any]] = []
    tensors: dict[str, np.ndarray] = {}
    seen: set[str] = set()
    for number, measurement in enumerate(measurements):
        description = _describe(measurement)
        name = f"{measurement.metric} of {measurement.learner} at num_examples={measurement.num_examples}"
        tensors[str(number)] = _samples(measurement, name)
        identity = canonical_json(description)
        if identity in seen:
            raise InputError(f"{name} is measured twice with the keys {measurement.keys}; tell them apart by a key")
        seen.add(identity)
        descriptions.append(description)
    return {"measurements": descriptions}, save(tensors)


def _describe(measurement: Measurement) -> dict[str, Any]:
    learner, metric = _text("the learner", measurement.learner), _text("the metric", measurement.metric)
    keys = {_text("a key", key): _plain(value) for key, value in measurement.keys.items()}
    clash = RESERVED & keys.keys()
    if clash:
        raise InputError(
            f"{metric} of {learner} has the key {min(clash)!r}, a column of the results; call the key otherwise"
        )
    for key, value in keys.items():
        if isinstance(value, str):
            _text(f"the key {key!r}", value)
        elif not _is_plain_number(value):
            raise InputError(
                f"{metric} of {learner} has {one_line(repr(value))} under the key {key!r}; "
                "expected a string or a finite number"
            )
    count = measurement.num_examples
    if count is not None:
        count = check_integer(f"num_examples of {metric} of {learner}", count, 0, LARGEST_INTEGER)
    return {
        "learner": learner,
        "metric": metric,
        "statistic": measurement.statistic,
        "num_examples": count,
        "keys": keys,
    }


def _samples(measurement: Measurement, name: str) -> np.ndarray:
    samples = np.ascontiguousarray(measurement.samples)
    bad = int((~np.isfinite(samples)).sum())
    if bad and measurement.statistic != "exact":
        raise InputError(f"{name} is not finite in {bad} of {samples.size} samples; the learner diverged")
    with np.errstate(over="ignore", invalid="ignore"):
        value = STATISTICS[measurement.statistic](samples.astype(np.float64))
    if not np.isfinite(value) and measurement.statistic != "exact":
        raise InputError(f"{name} has samples up to {np.abs(samples).max():.3g}, which no sum holds; it diverged")
    return samples


def _is_plain_number(value: object) -> bool:
    """Whether tables can hold ``value``: finite, and no integer of more than 64 bits; ``None`` is an empty entry."""
    if isinstance(value, int):
        return abs(value) <= LARGEST_INTEGER
    return value is None or (isinstance(value, float) and math.isfinite(value))


def _text(what: str, value: object) -> str:
    """Return ``value`` if it is a string that files can hold."""
    if not isinstance(value, str):
        raise InputError(f"{what} of a measurement is {one_line(repr(value))}; expected a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} of a measurement is {value!r}, which UTF-8 cannot hold; fix the string") from None
    return value


def _plain(value: object) -> object:
    """A NumPy scalar as a Python number."""
    return value.item() if isinstance(value, np.generic) else value
