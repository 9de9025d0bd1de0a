"""A cell as it was stored, and the columns of its tables that no key of a configuration can take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

COORDINATES = ("experiment", "cell", "learner", "seed", "num_examples", "metric", "statistic")
NUMBERS = ("value", "low", "high", "level", "interval", "num_prompts", "num_seeds", "seed_values")
RESERVED = frozenset(COORDINATES + NUMBERS)
LARGEST_INTEGER = 2**63 - 1
"""That the columns of a table hold."""


@dataclass(frozen=True)
class StoredCell:
    """A finished cell: its record, and ``samples[i]`` of measurement ``i``, each ``(k, P)``, in double precision."""

    record: dict[str, Any]
    samples: list[np.ndarray]
