"""``environment.json``: what each session of a run was computed with."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iclab.runs.environment import describe_environment
from iclab.runs.folder import ENVIRONMENT, RunFolder, write_json
from iclab.runs.storage import code_of


class Session:
    """What turns out while cells run.

    Args:
        earlier: the records of the cells that were finished before.
    """

    def __init__(self, earlier: Iterable[dict[str, Any]]) -> None:
        self._codes = Counter(code_of(record) for record in earlier)
        self._backends: set[str] = set()

    def add(self, record: dict[str, Any]) -> None:
        """Note what computed a finished cell."""
        self._codes[code_of(record)] += 1
        if record.get("scan_backend"):
            self._backends.add(record["scan_backend"])

    def to_json(self) -> dict[str, Any]:
        """The scan backends of this session's cells; and how many finished cells are of which code, if not of one."""
        codes = dict(sorted(self._codes.items())) if len(self._codes) > 1 else None
        return {"scan_backend": ", ".join(sorted(self._backends)) or None, "cells_by_code": codes}


@contextmanager
def recorded_session(
    run: RunFolder, execution: dict[str, Any], kind_folder: Path | None, earlier: Iterable[dict[str, Any]]
) -> Iterator[Session]:
    """Write ``environment.json`` before and after; those of earlier attempts are kept in it.

    Args:
        run: the folder.
        execution: how this session runs its cells.
        kind_folder: where the module of a user's kind lies.
        earlier: the records of the cells that were finished before.

    Raises:
        InputError: if the file is damaged.
    """
    path = run.path / ENVIRONMENT
    former = run.read_environment()
    previous = [*former.pop("previous", []), former] if former else []
    environment = describe_environment() | execution
    environment["kind_folder"] = str(kind_folder) if kind_folder else None
    session = Session(earlier)
    start = time.monotonic()
    write_json(path, environment | {"seconds": None, "previous": previous})
    interrupted = False
    try:
        yield session
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        found = session.to_json() | {"seconds": round(time.monotonic() - start, 3)}
        write_json(path, environment | found | {"interrupted": interrupted, "previous": previous})


def recorded_kind_folder(run: RunFolder) -> Path | None:
    """Where the module of a user's kind lay when the run was computed."""
    folder = run.read_environment().get("kind_folder")
    return Path(folder) if folder else None
