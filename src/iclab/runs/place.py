"""`Place`: what a cell is computed with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Threads of torch, and the device of deep models: recorded with a cell, never hashed."""

    threads: int = 1
    device: str = "cpu"
