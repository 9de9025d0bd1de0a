"""From rows of results to series, and from numbers to words: what the reports of all kinds share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from iclab.experiments.roles import Role
from iclab.results.page import Scale, Series

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Difference


def series(rows: pd.DataFrame, x: str, label: str, role: Role, like: str = "") -> Series:
    """Make one curve from summary rows; exact numbers get no band.

    Args:
        rows: of the curve, in any order.
        x: the column of the abscissa.
        label, role, like: as in `Series`.
    """
    ordered = rows.sort_values(x)
    exact = (ordered["interval"] == "exact").all()
    seeds = list(zip(*ordered["seed_values"], strict=False)) if not exact and len(ordered) else []
    return Series(
        label=label,
        x=[float(v) for v in ordered[x]],
        y=[float(v) for v in ordered["value"]],
        low=[] if exact else [float(v) for v in ordered["low"]],
        high=[] if exact else [float(v) for v in ordered["high"]],
        seeds=[list(map(float, seed)) for seed in seeds],
        role=role,
        band="" if exact else band(ordered),
        like=like,
    )


def band(rows: pd.DataFrame) -> str:
    """What the intervals of these rows are: ``95 % over 5 seeds x 128 prompts (seeds, then prompts resampled)``."""
    row = rows.iloc[0]
    prompts = int(row["num_prompts"])
    size = plural(int(row["num_seeds"]), "seed") + (f" x {prompts} prompts" if prompts > 1 else "")
    match row["interval"]:
        case "bootstrap":
            how = "seeds, then prompts resampled" if prompts > 1 else "seeds resampled"
            return f"{100 * row['level']:.0f} % over {size} ({how})"
        case "range":
            return f"smallest and largest of {size}"
        case "prompts":
            return f"{100 * row['level']:.0f} % over the prompts of one seed: {size}"
        case _:
            return size


def interval_note(rows: pd.DataFrame) -> str:
    """A sentence for a caption: the method of the intervals of all these rows, and what they rest on."""
    measured = rows[rows["interval"] != "exact"]
    if measured.empty:
        return "All numbers are exact: there are no intervals."
    prompts = bool((measured["num_prompts"] > 1).any())
    ways = {
        "bootstrap": "95 %, by bootstrap over seeds" + (", then over the prompts of each" if prompts else ""),
        "range": "the smallest and the largest seed where there are fewer than 5",
        "prompts": "95 % over the prompts of the only seed, which says nothing of other seeds",
        "none": "absent where there is one seed, or a value is not finite",
    }
    used = "; ".join(way for kind, way in ways.items() if (measured["interval"] == kind).any())
    return f"Intervals: {used} ({basis_of(measured)})."


def quantity(row: pd.Series) -> str:
    """Format the value of a row: ``0.262 (0.241 to 0.285)``; without an interval where there is none."""
    if not np.isfinite(row["low"]):
        return number(row["value"])
    return f"{number(row['value'])} ({number(row['low'])} to {number(row['high'])})"


def difference(found: Difference, scale: float = 1.0) -> str:
    """``-0.1 (-0.15 to -0.05)`` in multiples of ``1/scale``; without an interval where one seed gave one number."""
    if not np.isfinite(found.low):
        return number(scale * found.value)
    return f"{number(scale * found.value)} ({number(scale * found.low)} to {number(scale * found.high)})"


def number(value: float) -> str:
    """Three significant digits; what rounding leaves of zero is zero."""
    return "0" if abs(value) < 1e-12 else f"{value:.3g}"


def basis(row: pd.Series) -> str:
    """Format what a row rests on: ``5 seeds, 128 prompts each``."""
    return _basis([int(row["num_seeds"])], [int(row["num_prompts"])])


def basis_of(rows: pd.DataFrame) -> str:
    """What all these rows rest on: ``3 to 5 seeds, 128 prompts each``. Exact rows rest on neither and do not count."""
    measured = rows[rows["interval"] != "exact"]
    return _basis(measured["num_seeds"], measured["num_prompts"])


def basis_of_each(rows: Iterable[pd.Series | Difference]) -> str:
    """As `basis_of`, of rows or differences one by one."""
    listed = list(rows)
    return _basis([int(r.num_seeds) for r in listed], [int(r.num_prompts) for r in listed])


def _basis(seeds: Iterable[int], prompts: Iterable[int]) -> str:
    # A single number a seed, such as an area under a curve, has one sample and rests on no prompts.
    counted = [p for p in prompts if p > 1]
    return span(seeds, "seed") + (f", {span(counted, 'prompt')} each" if counted else "")


def span(counts: Iterable[int], noun: str) -> str:
    """``5 seeds``, or ``3 to 5 seeds`` where the counts differ."""
    values = sorted(set(counts))
    if not values:
        return f"no {noun}s"
    return plural(values[0], noun) if len(values) == 1 else f"{values[0]} to {values[-1]} {noun}s"


def spread(values: Iterable[float]) -> str:
    """``0.1 to 0.3``; one number where they are the same to three digits."""
    listed = list(values)
    return " to ".join(dict.fromkeys([number(min(listed)), number(max(listed))]))


def plural(count: int, noun: str) -> str:
    """``1 seed``, ``2 seeds``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_setting(value: object) -> str:
    """Format a swept value as titles show it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def by_learner(frame: pd.DataFrame, order: Iterable[str]) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each learner: those of ``order`` first, in that order."""
    groups = {str(name): rows for name, rows in frame.groupby("learner", sort=False)}
    names = [name for name in order if name in groups]
    return [(name, groups[name]) for name in [*names, *(name for name in groups if name not in names)]]


def abscissa(lengths: Iterable[float]) -> Scale:
    """The scale of an axis of context lengths: logarithmic, unless there is a length 0 to show."""
    return "symlog" if min(lengths, default=1) <= 0 else "log2"
