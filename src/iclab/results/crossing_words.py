"""Crossings in figures, tables and sentences: what was measured, what is a bound, and what a slope leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from iclab.results.page import Relation, Role, Series
from iclab.results.wording import format_setting, number

if TYPE_CHECKING:
    from iclab.evaluation import Crossing, CrossingSlope, Slope

    Reached = Mapping[float, Mapping[int, Crossing]]
    """Value of the abscissa -> seed -> crossing."""

BOUNDS_IN_FIGURES = (
    "Open arrows are bounds: down, some seed is at the level at the first measured point already; up, some seed is not "
    "up to the last."
)
_RELATIONS: dict[str, Relation] = {"measured": "=", "left": "<=", "right": ">"}


def common_seeds(reached: Reached) -> list[int]:
    """The seeds that every value of the abscissa has: an unfinished run has different ones here and there."""
    return sorted(set.intersection(*(set(seeds) for seeds in reached.values()))) if reached else []


def slope_of(reached: Reached, *, exact: bool = False) -> CrossingSlope | None:
    """The slope over the common seeds; of one curve where it is ``exact``, hence the same for every seed."""
    from iclab.evaluation import crossing_slope

    seeds = common_seeds(reached)[: 1 if exact else None]
    points = sorted(x for x in reached if x > 0)
    return crossing_slope(points, [[reached[x][seed] for x in points] for seed in seeds]) if seeds else None


def crossing_series(reached: Reached, label: str, role: Role) -> Series | None:
    """The mean over seeds at each value, marked where it is a bound; ``None`` where there is nothing to show."""
    from iclab.evaluation import mean_crossing

    means = {x: mean_crossing(reached[x].values()) for x in sorted(reached)}
    if not any(means.values()):
        return None
    y = [float("nan") if mean is None else mean.value for mean in means.values()]
    relations: list[Relation] = ["=" if mean is None else _RELATIONS[mean.state] for mean in means.values()]
    return Series(label, list(means), y, role=role, relations=relations)


def crossings_text(reached: Reached) -> str:
    """``2: <= 32 (4 of 5 seeds); 4: 83.1; 8: > 4096 (5 of 5 seeds)``, means over seeds."""
    return "; ".join(f"{format_setting(x)}: {crossing_text(reached[x])}" for x in sorted(reached))


def crossing_text(seeds: Mapping[int, Crossing]) -> str:
    """The mean over seeds, and how many of them are bounds."""
    from iclab.evaluation import mean_crossing

    bounds = [str(c) for c in seeds.values() if not c.measured]
    mean = mean_crossing(seeds.values())
    if mean is None:
        return f"bounds on both sides ({', '.join(sorted(set(bounds)))})"
    return str(mean) + (f" ({len(bounds)} of {len(seeds)} seeds)" if bounds and len(seeds) > 1 else "")


def slope_text(slope: Slope) -> str:
    """``1.2 (0.9 to 1.5, seeds)``."""
    if not np.isfinite(slope.low):
        return f"{number(slope.slope)} (no interval)"
    return f"{number(slope.slope)} ({number(slope.low)} to {number(slope.high)}, {slope.kind})"


def bound_text(found: CrossingSlope) -> str:
    """``2 (some crossing is a bound); over all values the slope is at least 1.7``; empty where all values count."""
    if not found.left_out:
        return ""
    named = f"{', '.join(map(format_setting, found.left_out))} (some crossing is a bound)"
    if found.bound_slope is None:
        return f"{named}; of the slope over all values no bound follows"
    side = "at least" if found.bound == "lower" else "at most"
    return f"{named}; over all values the slope is {side} {number(found.bound_slope.slope)}"
