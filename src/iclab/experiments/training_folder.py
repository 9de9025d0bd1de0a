"""A folder for each training of a run, named by what decides its result."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iclab.execution import execution
from iclab.experiments.identity import canonical_json, digest
from iclab.files import is_temporary, write_atomic
from iclab.lock import LOCK, locked

CHECKPOINTS, DESCRIPTION = "checkpoints", "training.json"


@contextmanager
def training_folder(description: dict[str, Any]) -> Iterator[Path | None]:
    """Hold the folder for the checkpoints of the training that ``description`` decides; ``None`` where none is kept.

    Another cell that has the same training waits here until this one has done it. What another run has of it is copied.
    """
    place = execution()
    if place.trainings is None:
        yield None
        return
    name = digest([place.computed_by, description])
    folder = place.trainings / name
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, wait=True):
        for other in place.shared:
            if not (folder / CHECKPOINTS).exists() and (other / name / CHECKPOINTS).is_dir():
                _copy(other / name / CHECKPOINTS, folder)
        if not (folder / DESCRIPTION).exists():
            content = json.loads(canonical_json(description))
            write_atomic(folder / DESCRIPTION, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
        yield folder / CHECKPOINTS


def _copy(source: Path, folder: Path) -> None:
    """Copy the checkpoints that lie in ``source``: all of them or none."""
    half = folder / f".{CHECKPOINTS}.tmp"
    shutil.rmtree(half, ignore_errors=True)
    shutil.copytree(source, half, ignore=lambda _, names: [n for n in names if n == LOCK or is_temporary(n)])
    half.rename(folder / CHECKPOINTS)
