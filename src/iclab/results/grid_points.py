"""The points of a grid: groups of results that differ in nothing but the seed, the learner and the abscissa.

A grid point differs in every swept key, whatever a user chose to sweep, so nothing is ever averaged over or joined
across settings.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iclab.results.page import Panel
from iclab.results.wording import format_setting

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

MOST_PANELS = 24
"""Of a figure; further grid points are named in the caption and stand in the tables."""

SHORT_NAMES = {"ambient_dim": "d", "intrinsic_dim": "r", "stage1_tasks": "T1"}
"""Last parts of keys that have a letter in the field."""

_MEASURED = {"experiment", "cell", "seed", "learner", "num_examples", "metric", "statistic", "value", "low", "high",
             "level", "interval", "num_prompts", "num_seeds", "seed_values"}  # fmt: skip
_SECTIONS = ("prompts.", "learners.", "gates.", "config.")
_LONGEST_VALUE = 40


@dataclass(frozen=True)
class GridPoint:
    """One point of the grid.

    Attributes:
        title: ``d = 16, r = 2``; empty where nothing is swept.
        key: the value of each swept column; ``None`` where the configuration has no such key here.
        rows: the results at this grid point.
        config: the configuration of one of its cells; they differ in the seed, and in the abscissa where it is swept.
    """

    title: str
    key: dict[str, Any]
    rows: pd.DataFrame
    config: dict[str, Any]

    @property
    def prefix(self) -> str:
        """The title as the beginning of a sentence."""
        return f"{self.title}: " if self.title else ""


def column_of(results: Results, key: str) -> str | None:
    """The column that holds the swept ``key``; ``None`` if it is not swept."""
    if key not in results.experiment["grid"] and key not in results.experiment["axes"]:
        return None
    known = results.summary.columns
    # A name that the measurements use themselves is never that of a swept key.
    names = [name for name in (f"config.{key}", key, key.rsplit(".", 1)[-1]) if name in known and name not in _MEASURED]
    return names[0] if names else None


def swept_columns(results: Results, own: Collection[str] = (), without: Collection[str] = ()) -> list[str]:
    """The columns that tell grid points apart.

    Args:
        results: of the run.
        own: columns that the kind's measurements add, such as ``degree``.
        without: swept keys that are no grid point: the abscissa, or what the learner's name says already.
    """
    skipped = {*_MEASURED, *own, *(column_of(results, key) for key in without)}
    frame = results.summary
    return [column for column in frame.columns if column not in skipped and frame[column].notna().any()]


def grid_points(results: Results, frame: pd.DataFrame, columns: Sequence[str]) -> list[GridPoint]:
    """The grid points that ``frame``, rows of either table of ``results``, has rows of, in the grid's order."""
    configs = {cell["id"]: cell["config"] for cell in results.experiment["cells"]}
    if frame.empty:
        return []
    if not columns:
        return [GridPoint("", {}, frame, configs[results.per_seed["cell"].iloc[0]])]
    per_seed = results.per_seed
    first = per_seed.drop_duplicates(list(columns))
    cells = dict(zip(_keys(first, columns), first["cell"], strict=True))
    groups = [rows for _, rows in frame.groupby(list(columns), sort=False, dropna=False)]
    keys = [_keys(rows.iloc[:1], columns)[0] for rows in groups]
    shown = [_shown(list(values)) for values in zip(*keys, strict=True)]
    labelled = {column_of(results, key) for keys in results.experiment["axes"].values() for key in keys}
    names = {i: axis_name(results, column) for i, column in enumerate(columns) if column not in labelled}
    return [
        GridPoint(
            ", ".join(f"{name} = {shown[j][i]}" for j, name in names.items()),
            dict(zip(columns, key, strict=True)),
            rows,
            configs[cells[key]],
        )
        for i, (key, rows) in enumerate(zip(keys, groups, strict=True))
    ]


def axis_name(results: Results, column: str) -> str:
    """A swept column as titles name it: ``d``, ``link``, ``mamba.rho``."""
    keys = [*results.experiment["axes"], *results.experiment["grid"]]
    key = next((key for key in keys if column_of(results, key) == column), column)
    for section in _SECTIONS:
        key = key.removeprefix(section)
    return SHORT_NAMES.get(key, key)


def capped(panels: Sequence[Panel], where: str, most: int = MOST_PANELS) -> tuple[list[Panel], str]:
    """The first panels, and a sentence that says which are left out and ``where`` their numbers are."""
    left = panels[most:]
    if not left:
        return list(panels), ""
    named = "; ".join(panel.title for panel in left[:3]) + ("; ..." if len(left) > 3 else "")
    count = f"{len(left)} of {len(panels)} panels are left out ({named})"
    return list(panels[:most]), f" {count}; {where} has their numbers."


def _keys(frame: pd.DataFrame, columns: Sequence[str]) -> list[tuple]:
    """The values of ``columns`` in each row as plain Python values."""
    return [tuple(_plain(value) for value in row) for row in frame[list(columns)].itertuples(index=False, name=None)]


def _plain(value: Any) -> Any:
    import pandas as pd

    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def _shown(values: list[Any]) -> list[str]:
    """The values of one axis as texts; long ones (whole sections) are cut and numbered, so that they stay distinct."""
    order = {value: position for position, value in enumerate(dict.fromkeys(values), start=1)}
    texts = {}
    for value, position in order.items():
        shown = "none" if value is None else str(value).lower() if isinstance(value, bool) else format_setting(value)
        if len(shown) > _LONGEST_VALUE:
            shown = f"{shown[: _LONGEST_VALUE - 3]}... (no. {position})"
        texts[value] = shown
    return [texts[value] for value in values]
