"""What a run folder says, as tables, with the samples behind every number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iclab.errors import InputError, alternatives, listed
from iclab.evaluation.intervals import interval
from iclab.files import write_atomic
from iclab.results.tables import SEED, coordinates


@dataclass(frozen=True)
class Difference:
    """A paired difference: its mean over seeds, the interval of that mean, and one value a seed."""

    value: float
    low: float
    high: float
    interval: str
    level: float
    num_prompts: int
    seed_values: tuple[float, ...]

    @property
    def num_seeds(self) -> int:
        """How many seeds it rests on."""
        return len(self.seed_values)


@dataclass(frozen=True)
class Results:
    """The results of a run.

    Attributes:
        experiment: the run's ``config.json``.
        environment: the run's ``environment.json``, of its last session.
        per_seed: one row a cell and measurement: experiment, cell, learner, swept keys, further keys, seed,
            num_examples, metric, statistic, value, low, high, level, interval, num_prompts.
        summary: one row a measurement over all seeds: learner, metric, statistic, num_examples, swept keys but the
            seed, further keys, value, low, high, level, interval, num_prompts (of each seed), num_seeds, seed_values.
        samples: ``samples[i]``, of shape ``(k, P)``, stands behind row ``i`` of ``per_seed``.
        learners_by_key: returns, for each cell, what the tables call the learner of each key of the configuration.
    """

    experiment: dict[str, Any]
    environment: dict[str, Any]
    per_seed: pd.DataFrame
    summary: pd.DataFrame
    samples: tuple[np.ndarray, ...]
    learners_by_key: Callable[[], Sequence[Mapping[str, str]]] = tuple

    @property
    def num_cells(self) -> int:
        """Cells of the run's grid, finished or not."""
        return len(self.experiment["cells"])

    @property
    def num_finished(self) -> int:
        """Cells that these results rest on."""
        return self.per_seed["cell"].nunique()

    def select(self, **filters: object) -> pd.DataFrame:
        """Select rows of the summary: ``select(learner="Ridge", num_examples=[64, 256])``.

        Args:
            **filters: allowed values by column; ``None`` selects missing entries. Learners are found by their names in
                the tables and by their keys in the configuration.

        Raises:
            InputError: for a column that does not exist, or a value that stands nowhere in its column.
        """
        return self.summary[self._mask(self.summary, filters)]

    def difference(self, learner_a: str, learner_b: str, metric: str, **filters: object) -> Difference:
        """Compute ``learner_a - learner_b``, prompt by prompt: both saw the same prompts of each seed.

        Args:
            learner_a, learner_b: names of learners, or their keys in the configuration.
            metric: a metric that is a mean over prompts, or exact.
            **filters: pick the grid point, as in `select`.

        Raises:
            InputError: if the filters leave no grid point or more than one, if the learners were not measured on the
                same seeds and prompts, or if the metric is no mean (an alignment is a ratio: it has no paired
                differences).
        """
        first = self._by_seed(learner_a, metric, filters)
        second = self._by_seed(learner_b, metric, filters)
        seeds = sorted(first.keys() & second.keys())
        if not seeds or first.keys() != second.keys():
            raise InputError(
                f"{learner_a} was measured on the seeds {sorted(first)} and {learner_b} on {sorted(second)}; "
                "expected the same seeds"
            )
        rows = [(first[seed], second[seed]) for seed in seeds]
        statistics = {str(self.per_seed.at[row, "statistic"]) for pair in rows for row in pair}
        if statistics not in ({"mean"}, {"exact"}):
            raise InputError(
                f"{metric} is of the statistics {sorted(statistics)}; expected two means or two exact numbers"
            )
        statistic = statistics.pop()
        pairs = [(self.samples[a], self.samples[b]) for a, b in rows]
        if any(a.shape != b.shape for a, b in pairs):
            raise InputError(f"{learner_a} and {learner_b} were measured on different numbers of prompts")
        differences = [a - b for a, b in pairs]
        found = interval(differences, statistic)
        values = tuple(float(d[0].mean()) for d in differences)
        num_prompts = 0 if statistic == "exact" else differences[0].shape[1]
        return Difference(float(np.mean(values)), found.low, found.high, found.kind, found.level, num_prompts, values)

    def _by_seed(self, learner: str, metric: str, filters: dict[str, object]) -> dict[int, int]:
        """Row of each seed."""
        table = self.per_seed
        mask = self._mask(table, {**filters, "learner": learner, "metric": metric})
        rows = table[mask]
        if rows.empty:
            measured = table[self._mask(table, {**filters, "metric": metric})]["learner"].unique()
            where = f" with {', '.join(f'{column}={value!r}' for column, value in filters.items())}" if filters else ""
            raise InputError(f"no {metric} of {learner!r}{where}; expected one of the learners {listed(measured)}")
        free = [c for c in coordinates(rows) if rows[c].nunique(dropna=False) > 1]
        if free:
            raise InputError(f"{metric} of {learner!r} depends on {', '.join(free)}; give a value for each")
        return dict(zip(rows[SEED].tolist(), rows.index.tolist(), strict=True))

    def _mask(self, table: pd.DataFrame, filters: dict[str, object]) -> pd.Series:
        mask = pd.Series(True, index=table.index)
        for column, wanted in filters.items():
            if column not in table.columns:
                raise InputError(f"no column {column!r}{alternatives(column, map(str, table.columns))}")
            several = isinstance(wanted, Collection) and not isinstance(wanted, str)
            chosen = pd.Series(False, index=table.index)
            for value in wanted if several else [wanted]:
                chosen |= self._rows_with(table[column], value)
            mask &= chosen
        return mask

    def _rows_with(self, column: pd.Series, value: object) -> pd.Series:
        if value is None:
            return column.isna()
        found = (column == value).fillna(False).astype(bool)
        if column.name == "learner" and not found.any():
            found = column.isin([names[value] for names in self.learners_by_key() if value in names])
        if not found.any():
            known = column.dropna().unique().tolist()
            near = alternatives(value, known) if isinstance(value, str) else f"; expected one of {listed(known)}"
            raise InputError(f"no {column.name} is {value!r}{near}")
        return found

    def write_tables(self, folder: Path) -> None:
        """Write ``results.csv`` and ``summary.csv``. Numbers are written so that they read back bit for bit."""
        write_atomic(folder / "results.csv", self.per_seed.to_csv(index=False, lineterminator="\n").encode())
        summary = self.summary.drop(columns="seed_values")
        summary.insert(0, "experiment", self.experiment["experiment"])
        write_atomic(folder / "summary.csv", summary.to_csv(index=False, lineterminator="\n").encode())
