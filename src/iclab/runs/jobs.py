"""A cell to run, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Job:
    """A cell to run: its id, the name of its kind (as the registry reads it) and its configuration as JSON values."""

    cell: str
    kind: str
    config: dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """A finished cell: ``record`` goes to ``cell.json``, ``values`` to ``values.safetensors``."""

    cell: str
    record: dict[str, Any]
    values: bytes


@dataclass(frozen=True)
class Failed:
    """A cell that raised: one line for the terminal, and all of it for ``error.txt``."""

    cell: str
    reason: str
    details: str
