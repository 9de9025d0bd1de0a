"""From rows of results to series, and from numbers to words: what the readings of all kinds share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from iclab.experiments.reading import Role, Series

if TYPE_CHECKING:
    import pandas as pd

SHORT_NAMES = {"ambient_dim": "d", "intrinsic_dim": "r", "stage1_tasks": "T1", "link": "link", "noise": "noise"}
"""Swept columns that place a panel, with the letters of the field."""


def series(rows: pd.DataFrame, x: str, label: str, role: Role, like: str = "") -> Series:
    """One curve from summary rows: ``x`` names the column of the abscissa. Exact numbers get no band."""
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
    size = f"{int(row['num_seeds'])} seed{'s' if row['num_seeds'] > 1 else ''} x {int(row['num_prompts'])} prompts"
    match row["interval"]:
        case "bootstrap":
            return f"{100 * row['level']:.0f} % over {size} (seeds, then prompts resampled)"
        case "range":
            return f"smallest and largest of {size}"
        case "prompts":
            return f"{100 * row['level']:.0f} % over the prompts of one seed: {size}"
        case _:
            return size


def quantity(row: pd.Series) -> str:
    """``0.262 (0.241 to 0.285)``; without an interval where there is none."""
    if not np.isfinite(row["low"]):
        return number(row["value"])
    return f"{number(row['value'])} ({number(row['low'])} to {number(row['high'])})"


def number(value: float) -> str:
    """Three significant digits; what rounding leaves of zero is zero."""
    return "0" if abs(value) < 1e-12 else f"{value:.3g}"


def basis(row: pd.Series) -> str:
    """``5 seeds, 128 prompts each``."""
    seeds = int(row["num_seeds"])
    return f"{seeds} seed{'s' if seeds > 1 else ''}, {int(row['num_prompts'])} prompts each"


def text(value: object) -> str:
    """A swept value as a title shows it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def present(frame: pd.DataFrame, *columns: str) -> list[str]:
    """Those of the columns that the grid swept."""
    return [column for column in columns if column in frame.columns and frame[column].notna().any()]


def places_of(frame: pd.DataFrame, columns: list[str]) -> list[tuple[tuple, pd.DataFrame]]:
    """The rows of each place of the grid, in the grid's order; one group where nothing is swept."""
    if not columns:
        return [((), frame)]
    grouped = frame.groupby(columns, sort=False, dropna=False)
    return [(place if isinstance(place, tuple) else (place,), part) for place, part in grouped]


def by_learner(frame: pd.DataFrame, order: Iterable[str]) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each learner: those of ``order`` first, in that order."""
    groups = {str(name): rows for name, rows in frame.groupby("learner", sort=False)}
    names = [name for name in order if name in groups]
    return [(name, groups[name]) for name in [*names, *(name for name in groups if name not in names)]]


def place_title(columns: list[str], place: tuple) -> str:
    """``d = 16, r = 2``; empty where nothing is swept."""
    return ", ".join(f"{SHORT_NAMES[c]} = {text(v)}" for c, v in zip(columns, place, strict=True))
