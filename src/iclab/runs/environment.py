"""What a run was computed with: recorded beside the results, never hashed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import iclab
from iclab.errors import InputError
from iclab.machine import processor
from iclab.memory import total_memory
from iclab.runs.threads import available_cores

PACKAGES = ("torch", "numpy", "scipy", "safetensors", "pydantic", "pyyaml", "pandas", "matplotlib")


def describe_environment() -> dict[str, Any]:
    """Versions, machine and source of this process."""
    return {
        "iclab": iclab.__version__,
        "python": platform.python_version(),
        **package_versions(),
        **_source(),
        "machine": platform.node(),
        "system": platform.platform(),
        "cpu": processor(),
        "cores": available_cores(),
        "memory_bytes": total_memory(),
        "command": [argument.encode("utf-8", "backslashreplace").decode() for argument in sys.argv],
        "start": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def package_versions() -> dict[str, str | None]:
    """Installed versions of the libraries that results depend on; ``None`` where one is missing."""
    return {name: _version(name) for name in PACKAGES}


def scan_backend() -> str | None:
    """The implementation of the selective scan that this process takes on the CPU; ``None`` if it uses no scan."""
    if "iclab.ops" not in sys.modules:
        return None
    from iclab.ops import backend_in_use

    try:
        return backend_in_use()
    except InputError:
        # The variable ICLAB_SCAN names what is not here; the code of the cell has asked for something else.
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _source() -> dict[str, Any]:
    """Commit of the checkout that the package runs from, and whether it was changed since; ``None`` outside of one."""
    package = Path(iclab.__file__).parent
    # An installed package may lie inside somebody else's repository: ask whether it is tracked.
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return {"git_commit": None, "git_dirty": None}
    status = _git(package, "status", "--porcelain", "--untracked-files=no")
    return {"git_commit": _git(package, "rev-parse", "HEAD"), "git_dirty": None if status is None else bool(status)}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
