"""Whether a finished run has all that it could be asked for: then repeating it computes and draws nothing.

``report.json`` says what the tables, the figures and the page were made from, and the checksum of each. This module
loads no numeric library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import iclab
from iclab.code_version import sources_of
from iclab.config.identity import digest
from iclab.config.validation import validate
from iclab.errors import InputError
from iclab.experiments.registry import load_kind
from iclab.experiments.resolved import Resolved
from iclab.files import write_atomic
from iclab.runs.environment import package_versions
from iclab.runs.folder import CLAIMS, CONFIG, ENVIRONMENT, RunFolder
from iclab.runs.storage import verify_cell

STAMP, PAGE = "report.json", "report.html"
_MADE = ("results.csv", "summary.csv", CLAIMS, PAGE, "figures/*")


def finished_report(resolved: Resolved, folder: Path | None) -> Path | None:
    """The page of a run of which nothing is left to do; ``None`` where something is missing, or was made otherwise.

    Raises:
        InputError: for a cell that was changed since it was written, as `run_experiment` raises it.
    """
    shown = folder if folder is not None else Path("runs") / resolved.folder_name
    run = RunFolder(shown.absolute())
    experiment = json.loads(json.dumps(resolved.to_json()))
    try:
        stamp = json.loads((run.path / STAMP).read_bytes())
        if json.loads((run.path / CONFIG).read_bytes()) != experiment:
            return None
    except (OSError, ValueError, RecursionError):
        return None
    if len(run.finished(experiment)) < len(resolved.cells):
        return None
    return shown / PAGE if stamp == _stamp(run, experiment) else None


def write_stamp(run: RunFolder, experiment: dict[str, Any]) -> None:
    """Note what the tables and the page of a complete run were made from."""
    content = _stamp(run, json.loads(json.dumps(experiment)))
    write_atomic(run.path / STAMP, json.dumps(content, indent=1) + "\n")


def _stamp(run: RunFolder, experiment: dict[str, Any]) -> dict[str, Any]:
    cells = [verify_cell(run.cell(entry["id"]))[0]["checksum"] for entry in experiment["cells"]]
    made = sorted(path for pattern in _MADE for path in run.path.glob(pattern) if path.is_file())
    return {
        "inputs": digest([experiment, cells, _checksum(run.path / ENVIRONMENT)], 16),
        "code": _code(experiment),
        "made": {path.relative_to(run.path).as_posix(): _checksum(path) for path in made},
    }


def _code(experiment: dict[str, Any]) -> str:
    """Of the whole package, a user's modules with those that they import, and the libraries that compute and draw."""
    package = Path(iclab.__file__).parent
    sources = {path.relative_to(package).as_posix(): _checksum(path) for path in sorted(_files(package))}
    kind_name = experiment["kind"]
    kind = load_kind(kind_name)
    named = {name for cell in experiment["cells"] for name in validate(kind.config, cell["config"]).own_modules()}
    modules = [
        *kind.modules,
        *sorted(named),
        *([kind.summary.partition(":")[0]] if isinstance(kind.summary, str) else []),
    ]
    try:
        own = sources_of(modules, without=("iclab",))
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"the sources of the kind {kind_name!r} cannot be read ({error}); restore them") from None
    checksums = {name: hashlib.blake2b(content, digest_size=16).hexdigest() for name, content in sorted(own.items())}
    return digest([package_versions(), sources, checksums], 16)


def _files(package: Path) -> Iterator[Path]:
    return (path for path in package.rglob("*") if path.suffix in (".py", ".j2", ".css", ".c", ".h"))


def _checksum(path: Path) -> str:
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); make it readable or delete it") from None
