"""What one core of this machine does in a second: measured once, kept in the user's cache folder.

Forecasts rest on these rates and on counted work (`iclab.experiments.cost`); no result ever does.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from iclab.files import write_atomic

_TIMEOUT = 120.0


@dataclass(frozen=True)
class Rates:
    """What is done in a second.

    Attributes:
        operations: floating-point operations of matrix products in float32.
        bytes: read and written by passes over large tensors.
        numbers: Gaussian numbers drawn.
        calls: operations on tensors that are too small to count.
    """

    operations: float
    bytes: float
    numbers: float
    calls: float


REFERENCE = Rates(operations=8e10, bytes=1e10, numbers=3e8, calls=5e5)
"""Of a core of 2023, for a machine on which nothing can be measured."""


@cache
def machine_rates() -> Rates:
    """Return the rates of one core of this machine, from the cache or measured now, which takes some seconds.

    They are measured in a process of its own with one thread, so nothing here is changed or loaded. Where the cache
    cannot be written, each process that asks measures anew; where nothing can be measured, they are `REFERENCE`.
    """
    path = cache_file()
    found = _read(path)
    if found is not None:
        return found
    try:
        measured = subprocess.run(
            [sys.executable, "-m", "iclab.machine.measure"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": _package_folder()},
        )
        found = _parse(measured.stdout)
    except (OSError, subprocess.SubprocessError):
        found = None
    if found is None:
        return REFERENCE
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(asdict(found), indent=1) + "\n")
    return found


def cache_file() -> Path:
    """Return the file that holds the rates of this processor under this version of PyTorch."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache"
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "none"
    key = hashlib.blake2b(json.dumps([processor(), platform.machine(), torch]).encode(), digest_size=8).hexdigest()
    return folder / "iclab" / f"rates-{key}.json"


def processor() -> str:
    """Return the name of the processor, as far as the system knows it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _read(path: Path) -> Rates | None:
    try:
        return _parse(path.read_text())
    except (OSError, UnicodeDecodeError):
        return None


def _parse(text: str) -> Rates | None:
    try:
        found = json.loads(text)
        values = [float(found[field.name]) for field in fields(Rates)]
    except (ValueError, KeyError, TypeError):
        return None
    return Rates(*values) if all(0 < value < float("inf") for value in values) else None


def _package_folder() -> str:
    return os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
