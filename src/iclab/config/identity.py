"""What makes two cells, or two runs, the same: a hash of their science and of nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

SCHEMA_VERSION = 2
"""Raised whenever a field is added to or removed from a configuration, because that changes every id."""


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces; ``ValueError`` for NaN and infinities."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: object, num_bytes: int = 6) -> str:
    """Hexadecimal blake2b of the canonical JSON of ``value``."""
    return hashlib.blake2b(canonical_json(value).encode(), digest_size=num_bytes).hexdigest()


def cell_id(kind: str, config: dict) -> str:
    """Id of a cell: ``config`` is the JSON dump of the validated configuration, so ``32`` and ``32.0`` agree."""
    return digest([SCHEMA_VERSION, kind, config])


def run_id(experiment: str, kind: str, cells: Iterable[str]) -> str:
    """Id of a run: the experiment and its set of cells, in whatever order they were asked for."""
    return digest([SCHEMA_VERSION, experiment, kind, sorted(cells)])
