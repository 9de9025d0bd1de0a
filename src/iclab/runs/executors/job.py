"""`Job`: what an executor needs to know of a cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Job:
    """A cell to run: its id, the name of its kind (as the registry reads it) and its configuration as JSON values."""

    cell: str
    kind: str
    config: dict[str, Any]
