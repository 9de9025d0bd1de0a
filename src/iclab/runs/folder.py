"""A run folder: whose it is, what is in it, and what may be written to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iclab.config.identity import SCHEMA_VERSION
from iclab.errors import InputError
from iclab.files import is_temporary, write_atomic
from iclab.lock import is_lock, locked
from iclab.runs.consistency import contradiction
from iclab.runs.storage import is_finished

CONFIG, ENVIRONMENT, CLAIMS, CELLS, TRAININGS = (
    "config.json", "environment.json", "claims.json", "cells", "trainings",
)  # fmt: skip


class RunFolder:
    """The folder of one run.

    Args:
        path: the folder; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def cell(self, cell: str) -> Path:
        """``cells/<id>``."""
        return self.path / CELLS / cell

    def finished(self, experiment: dict[str, Any]) -> list[str]:
        """Ids of the finished cells, in the order of the grid."""
        return [entry["id"] for entry in experiment["cells"] if is_finished(self.cell(entry["id"]))]

    @contextmanager
    def open(self, experiment: dict[str, Any]) -> Iterator[None]:
        """Hold the folder for writing the run ``experiment`` (what `Resolved.to_json` returns).

        Raises:
            InputError: if the folder holds something else, or another process writes to it; nothing is changed then.
        """
        self._make(experiment)
        with locked(self.path):
            self.check(experiment)
            self._remove_leftovers()
            # What the file says beside the ids may be of an earlier version, or somebody's; these are the words now.
            if not (self.path / CONFIG).exists() or self.read_config() != json.loads(json.dumps(experiment)):
                write_json(self.path / CONFIG, experiment)
            try:
                yield
            except OSError as error:
                # A full disk names no file; say at least where there is no space.
                if error.filename is None:
                    error.filename = str(self.path)
                raise

    @contextmanager
    def open_existing(self) -> Iterator[dict[str, Any]]:
        """Hold a folder that holds a run already, and give its ``config.json``."""
        self.read_config()
        with locked(self.path):
            yield self.read_config()

    def read_config(self) -> dict[str, Any]:
        """``config.json``.

        Raises:
            InputError: if the folder is no run, or its ``config.json`` is damaged or from another version.
        """
        path = self.path / CONFIG
        if not self.path.is_dir():
            raise InputError(f"no folder {self.path}; expected the folder of a run")
        if not path.exists():
            raise InputError(f"{self.path} has no {CONFIG}; expected the folder of a run")
        try:
            config = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            raise InputError(f"{path} is no JSON any more; restore it, or run into another folder") from None
        version = config.get("schema_version") if isinstance(config, dict) else None
        if isinstance(version, int) and version != SCHEMA_VERSION:
            raise InputError(
                f"{path} has schema version {version} and this iclab writes {SCHEMA_VERSION}; run the experiment into "
                "another folder"
            )
        needed = {"schema_version", "experiment", "kind", "scale", "run_id", "config", "grid", "axes", "cells"}
        if version is None or not needed <= config.keys():
            raise InputError(f"{path} describes no run; restore it, or run into another folder")
        fault = contradiction(config)
        if fault:
            raise InputError(f"{path} was changed ({fault}); restore it, or run into another folder")
        return config

    def read_environment(self) -> dict[str, Any]:
        """``environment.json``; empty where there is none yet.

        Raises:
            InputError: if it is damaged.
        """
        path = self.path / ENVIRONMENT
        if not path.exists():
            return {}
        try:
            environment = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            raise InputError(f"{path} is no JSON any more; delete it to go on") from None
        if not isinstance(environment, dict):
            raise InputError(f"{path} describes no session; delete it to go on")
        previous, folder = environment.get("previous", []), environment.get("kind_folder")
        if not isinstance(previous, list) or not all(isinstance(session, dict) for session in previous):
            raise InputError(f"{path} has earlier sessions that are no list of sessions; delete it to go on")
        if folder is not None and not isinstance(folder, str):
            raise InputError(f"{path} has a kind_folder that is no text; delete it to go on")
        return environment

    def _make(self, experiment: dict[str, Any]) -> None:
        """Make the folder, if it may hold this run."""
        try:
            self.check(experiment)
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            links = [path for path in (self.path, *self.path.parents) if _leads_nowhere(path)]
            reason = f"{links[-1]} is a link that leads nowhere" if links else error.strerror or str(error)
            raise InputError(f"{self.path} cannot be made a run folder ({reason}); choose another --out") from None

    def check(self, experiment: dict[str, Any]) -> None:
        """Refuse a folder that holds anything but this run, or nothing. Only looks.

        Raises:
            InputError: saying what it holds.
        """
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise InputError(f"{self.path} is a file; choose a folder with --out")
        if (self.path / CONFIG).exists():
            stored = self.read_config()
            if stored["run_id"] != experiment["run_id"]:
                raise InputError(
                    f"{self.path} holds another run ({_difference(stored, experiment)}); choose another --out"
                )
            return
        strangers = sorted(
            entry.name for entry in self.path.iterdir() if not is_lock(entry) and not is_temporary(entry.name)
        )
        if strangers:
            names = ", ".join(strangers[:3]) + (", ..." if len(strangers) > 3 else "")
            raise InputError(f"{self.path} holds files that are no run ({names}); choose another --out")

    def _remove_leftovers(self) -> None:
        """Temporary files of a process that was killed."""
        for pattern in (".*.tmp", f"{CELLS}/*/.*.tmp", "figures/.*.tmp"):
            for path in self.path.glob(pattern):
                if is_temporary(path.name):
                    path.unlink(missing_ok=True)


def write_json(path: Path, content: object) -> None:
    """Write JSON for people and programs."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # Halves of characters, as in the name of a file that is no UTF-8, become their JSON escapes.
    write_atomic(path, text.encode("utf-8", "backslashreplace"))


def _leads_nowhere(path: Path) -> bool:
    try:
        return path.is_symlink() and not path.exists()
    except OSError:  # the name is too long, or a folder above may not be read
        return False


def _difference(stored: dict[str, Any], asked: dict[str, Any]) -> str:
    """The keys in which two runs differ, with both values."""
    there, here = _flat(stored), _flat(asked)
    keys = [key for key in {**there, **here} if there.get(key) != here.get(key)]
    shown = [f"{key} is {_short(there.get(key))} there and {_short(here.get(key))} here" for key in keys[:3]]
    if len(keys) > 3:
        shown.append(f"and {len(keys) - 3} more differ")
    return "; ".join(shown) or "its cells differ"


def _flat(experiment: dict[str, Any]) -> dict[str, Any]:
    flat = {key: experiment[key] for key in ("experiment", "kind")}
    flat.update(_leaves(experiment["config"], ""))
    flat.update(experiment["grid"])
    return flat


def _leaves(tree: dict[str, Any], prefix: str) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            leaves.update(_leaves(value, f"{prefix}{key}."))
        else:
            leaves[prefix + key] = value
    return leaves


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."
