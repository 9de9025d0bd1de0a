"""What this machine offers to a run."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from iclab.errors import InputError
from iclab.lock import locked
from iclab.machine import cache_file, machine_rates
from iclab.memory import format_bytes
from iclab.runs.environment import PACKAGES, describe_environment
from iclab.runs.threads import VARIABLES, available_cores


def examine(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return versions, machine, rates of one core, threads, devices and backends.

    ``checks`` are those that a run in ``folder`` rests on.

    Args:
        folder: where runs would be written; the working folder by default.
    """
    import torch

    from iclab.ops import backends as scan_backends

    folder = folder or Path.cwd()
    environment = describe_environment()
    versions = ("iclab", "python", *PACKAGES)
    writable, lockable = _try_folder(folder)
    return {
        "versions": {name: environment[name] for name in versions},
        "machine": {
            "system": environment["system"],
            "cpu": environment["cpu"],
            "cores": available_cores(),
            "memory": format_bytes(environment["memory_bytes"]) if environment["memory_bytes"] else None,
            "load average": environment["load_average"],
        },
        "one core": _rates(),
        "threads": {
            "torch": torch.get_num_threads(),
            **{name: os.environ.get(name, "not set") for name in VARIABLES},
        },
        "devices": {
            "cpu": True,
            "cuda": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
            "mps": torch.backends.mps.is_available(),
        },
        "backends": {
            "cpu vectors": torch.backends.cpu.get_cpu_capability(),
            "mkl": torch.backends.mkl.is_available(),
            "mkldnn": torch.backends.mkldnn.is_available(),
            "openmp": torch.backends.openmp.is_available(),
        },
        "scan": scan_backends(),
        "folder": {"path": str(folder), "free": _free(folder)},
        "checks": {
            "libraries installed": all(environment[name] is not None for name in versions),
            "folder writable": writable,
            "folder has locks": lockable,
        },
    }


def _rates() -> dict[str, Any]:
    """What forecasts rest on; see `iclab.machine`."""
    rates, path = machine_rates(), cache_file()
    return {
        "GFLOP/s of products": float(f"{rates.operations / 1e9:.3g}"),
        "GB/s of copies": float(f"{rates.bytes / 1e9:.3g}"),
        "million numbers drawn/s": float(f"{rates.numbers / 1e6:.3g}"),
        "thousand small calls/s": float(f"{rates.calls / 1e3:.3g}"),
        "kept in": str(path) if path.is_file() else None,
    }


def _try_folder(folder: Path) -> tuple[bool, bool]:
    """Whether a run can be written to ``folder``, and whether its file system has locks."""
    try:
        with tempfile.TemporaryDirectory(prefix=".iclab-doctor-", dir=folder) as name:
            try:
                with locked(Path(name)):
                    return True, True
            except InputError:
                return True, False
    except OSError:
        return False, False


def _free(folder: Path) -> str | None:
    try:
        return format_bytes(shutil.disk_usage(folder).free)
    except OSError:
        return None
