"""The files of one cell: ``values.safetensors``, then ``cell.json``, whose presence means that the cell is finished."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from iclab.config.identity import SCHEMA_VERSION, canonical_json, cell_id
from iclab.errors import InputError
from iclab.files import write_atomic
from iclab.results.columns import StoredCell
from iclab.runs.jobs import Failed, Measured

RECORD, VALUES, ERROR = "cell.json", "values.safetensors", "error.txt"
_DESCRIBED = {"learner", "metric", "statistic", "num_examples", "keys"}


def write_cell(folder: Path, kind: str, config: dict[str, Any], measured: Measured) -> None:
    """Write a finished cell to ``folder`` (``cells/<id>``), and remove the error of an earlier attempt."""
    record = {"schema_version": SCHEMA_VERSION, "id": measured.cell, "kind": kind, "config": config, **measured.record}
    record["checksum"] = _checksum(record, measured.values)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / VALUES, measured.values)
    write_atomic(folder / RECORD, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    (folder / ERROR).unlink(missing_ok=True)


def copy_cell(source: Path, target: Path) -> None:
    """Copy a finished cell, as `write_cell` writes it: its record last."""
    target.mkdir(parents=True, exist_ok=True)
    for name in (VALUES, RECORD):
        write_atomic(target / name, (source / name).read_bytes())
    (target / ERROR).unlink(missing_ok=True)


def write_failure(folder: Path, failed: Failed) -> None:
    """Write why a cell failed."""
    folder.mkdir(parents=True, exist_ok=True)
    # An exception may carry any text, also what UTF-8 cannot hold.
    write_atomic(folder / ERROR, f"{failed.reason}\n\n{failed.details}".encode("utf-8", "backslashreplace"))


def code_of(record: dict[str, Any]) -> str:
    """Which code computed a cell: the version of iclab and the hash of its sources, where it was recorded."""
    return f"iclab {record.get('iclab') or '?'}, code {record.get('code') or 'not recorded'}"


def is_finished(folder: Path) -> bool:
    """Whether the cell in ``folder`` is finished."""
    return (folder / RECORD).exists()


def verify_cell(folder: Path) -> tuple[dict[str, Any], bytes]:
    """The record and the file of samples of the finished cell in ``folder``, by their checksum as they were written.

    Raises:
        InputError: if anything in it was changed since.
    """
    record_path, values_path = folder / RECORD, folder / VALUES
    advice = _advice(folder)
    try:
        record = json.loads(record_path.read_bytes())
        values = values_path.read_bytes()
    except (ValueError, RecursionError):
        raise InputError(f"{record_path} is no JSON any more; {advice}") from None
    except FileNotFoundError as error:
        raise InputError(f"{error.filename} is missing; {advice}") from None
    expected = {"id", "kind", "config", "measurements", "checksum", "schema_version"}
    if not isinstance(record, dict) or not expected <= record.keys():
        raise InputError(f"{record_path} is no record of a cell any more; {advice}")
    if record["schema_version"] != SCHEMA_VERSION:
        raise InputError(
            f"{record_path} has schema version {record['schema_version']} and this iclab writes {SCHEMA_VERSION}; "
            f"{advice}, or read it with the iclab that wrote it"
        )
    try:
        identity = cell_id(record["kind"], record["config"])
        checksum = _checksum(record, values)
    except ValueError:
        raise InputError(f"{record_path} holds numbers that are not finite; {advice}") from None
    if record["id"] != folder.name or identity != folder.name:
        raise InputError(f"{record_path} holds the configuration of another cell ({identity}); {advice}")
    if record["checksum"] != checksum:
        raise InputError(f"{values_path} or {record_path} was changed or cut (its checksum differs); {advice}")
    return record, values


def read_cell(folder: Path) -> StoredCell:
    """The finished cell in ``folder``.

    Raises:
        InputError: if anything in it was changed since it was written.
    """
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load

    record, values = verify_cell(folder)
    record_path, values_path = folder / RECORD, folder / VALUES
    advice = _advice(folder)
    try:
        tensors = load(values)
    except SafetensorError:
        raise InputError(f"{values_path} is no safetensors file; {advice}") from None
    measurements = record["measurements"]
    names = {str(number) for number in range(len(measurements))} if isinstance(measurements, list) else None
    if names != tensors.keys() or not all(isinstance(m, dict) and m.keys() >= _DESCRIBED for m in measurements):
        raise InputError(f"{record_path} has measurements that this iclab cannot read; {advice}")
    # Stored as measured; means over prompts are taken in double precision whatever that was.
    samples = [tensors[str(number)].astype(np.float64) for number in range(len(measurements))]
    return StoredCell(record, samples)


def _advice(folder: Path) -> str:
    return f"delete {folder} to recompute it"


def _checksum(record: dict[str, Any], values: bytes) -> str:
    content = {key: value for key, value in record.items() if key != "checksum"}
    return hashlib.blake2b(values + canonical_json(content).encode(), digest_size=16).hexdigest()
