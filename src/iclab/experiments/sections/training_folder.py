"""A folder for each training of a run, named by what decides its result."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iclab.config.identity import canonical_json, digest
from iclab.execution import execution
from iclab.files import is_temporary, write_atomic
from iclab.lock import LOCK, locked

CHECKPOINTS, DESCRIPTION = "checkpoints", "training.json"


@contextmanager
def training_folder(description: dict[str, Any], code: str | None) -> Iterator[Path | None]:
    """Hold the folder for the checkpoints of a training; ``None`` where none is kept.

    Its name is a hash of what decides the bits of the training: ``description``, ``code`` (see
    `iclab.code_version.code_version`), threads and device. What measures or describes the model afterwards has no part
    in it.

    Another cell that has the same training waits here until this one has done it. What another run has of it is copied,
    unless that run trains it right now: then this one trains for itself.
    """
    current = execution()
    if current.trainings is None:
        yield None
        return
    name = digest([code, current.threads, current.device, description])
    folder = current.trainings / name
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, wait=True):
        for other in current.shared:
            if not (folder / CHECKPOINTS).exists():
                _take(other / name, folder)
        if not (folder / DESCRIPTION).exists():
            content = json.loads(canonical_json(description))
            write_atomic(folder / DESCRIPTION, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
        yield folder / CHECKPOINTS


def _take(source: Path, folder: Path) -> None:
    """Copy the checkpoints of the training in ``source``, all of them or none.

    None are taken that another process may write to meanwhile, or that cannot be read.
    """
    half = folder / f".{CHECKPOINTS}.tmp"
    shutil.rmtree(half, ignore_errors=True)
    with _still(source) as still:
        if not still or not (source / CHECKPOINTS).is_dir():
            return
        try:
            shutil.copytree(source / CHECKPOINTS, half, ignore=_left_behind)
        except OSError:  # also shutil.Error: files that went, or may not be read
            shutil.rmtree(half, ignore_errors=True)
            return
    half.rename(folder / CHECKPOINTS)


def _left_behind(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == LOCK or is_temporary(name)]


@contextmanager
def _still(source: Path) -> Iterator[bool]:
    """Keep those who write to ``source`` out of it; ``False`` where one is at it.

    The lock is shared and taken without writing: several runs may read at once, also from a folder that is read-only.
    """
    import fcntl

    try:
        descriptor = os.open(source / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield source.is_dir()  # a copy of a run folder without its locks: nobody trains there
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            yield True  # a file system without locks, where no training is kept while it runs
            return
        try:
            yield True
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)
