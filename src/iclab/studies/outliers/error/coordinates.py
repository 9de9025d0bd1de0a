"""The coordinates of an outlier error run: what was varied in training and testing, in the paper's letters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from iclab.results.grid_points import GridPoint, axis_name, column_of, grid_points, swept_columns
from iclab.results.wording import format_setting
from iclab.studies.outliers.names import ERROR, STEP_LETTERS, TEST_LETTERS, TRAINING_LETTERS

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

_LONGEST = 40
_WORDS = {"labels": "{} labels", "placement": "outliers {}", "outliers": "outliers {}"}
_PLACEMENTS = {
    "random": "at random positions",
    "farthest": "farthest from the query",
    "closest": "closest to the query",
}


@dataclass(frozen=True)
class Coordinate:
    """A column of the tables with more than one value; ``values`` in their order, numbers sorted."""

    column: str
    letter: str
    values: tuple[Any, ...]

    @property
    def numeric(self) -> bool:
        """Whether it can be an abscissa."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)

    def format_value(self, value: Any) -> str:
        """``kappa_a' = 2``, ``flipped labels``."""
        shown = format_setting(_PLACEMENTS.get(value, value) if self.letter == "placement" else value)
        if len(shown) > _LONGEST:
            shown = f"{shown[: _LONGEST - 3]}... (no. {self.values.index(value) + 1})"
        return _WORDS[self.letter].format(shown) if self.letter in _WORDS else f"{self.letter} = {shown}"


def coordinates(results: Results) -> list[Coordinate]:
    """Every column with more than one value among the errors; ``num_examples`` is one if several were tested."""
    errors = results.summary[results.summary["metric"] == ERROR]
    found = []
    # Measurements say their test law themselves, so a swept key of the section `test` is no second coordinate.
    said = {f"test.{column}" for column in errors.columns}
    for column in [*(column for column in swept_columns(results) if column not in said), "num_examples"]:
        values = [None if _missing(v) else getattr(v, "item", lambda v=v: v)() for v in errors[column].unique()]
        if len(values) > 1:
            numbers = [value for value in values if isinstance(value, int | float)]
            ordered = sorted(numbers) if len(numbers) == len(values) else values
            found.append(Coordinate(column, _letter(results, column), tuple(ordered)))
    return found


def points(results: Results, frame: pd.DataFrame, coords: Sequence[Coordinate]) -> list[GridPoint]:
    """The grid points of ``frame`` that differ in ``coords``, with titles in the paper's letters."""
    found = grid_points(results, frame, [coord.column for coord in coords])
    return [
        replace(
            point,
            title=", ".join(
                coord.format_value(point.key[coord.column]) for coord in coords if coord.column in point.key
            ),
        )
        for point in found
    ]


def without(coords: Sequence[Coordinate], columns: Collection[str]) -> list[Coordinate]:
    """The coordinates but those of ``columns``."""
    return [coord for coord in coords if coord.column not in columns]


def setting(point: GridPoint, name: str) -> Any:
    """The value of the test distribution's ``name`` at this grid point: its axis's where it has one, else that of the
    section ``test``.

    ``None`` where the grid point holds rows of several values.
    """
    if name in point.key:
        return point.key[name]
    if name in point.rows and point.rows[name].notna().any():
        measured = point.rows[name].dropna().unique()
        return getattr(measured[0], "item", lambda: measured[0])() if len(measured) == 1 else None
    values = point.config["axes"].get(name)
    if values is None:
        return point.config["test"][name]
    listed = list(values)
    return listed[0] if len(listed) == 1 else None


def _letter(results: Results, column: str) -> str:
    key = next((key for key in results.experiment["grid"] if column_of(results, key) == column), f"axes.{column}")
    section, _, name = key.rpartition(".")
    if section == "prompts":
        return TRAINING_LETTERS.get(name, name)
    if section in ("axes", "test"):
        return TEST_LETTERS.get(name, name)
    if name in STEP_LETTERS and section.endswith(".training"):
        alone = len(results.experiment["config"]["learners"]) == 1
        return STEP_LETTERS[name] if alone else f"{section.split('.')[1]}: {STEP_LETTERS[name]}"
    return axis_name(results, column)


def _missing(value: Any) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_scalar(value) and pd.isna(value))
