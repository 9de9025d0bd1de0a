"""Stored cells as tidy tables: one row a measurement, and one row a measurement over all seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from iclab.config.keys import look_up
from iclab.evaluation.intervals import interval
from iclab.evaluation.measurement import STATISTICS, pooled_value
from iclab.results.columns import LARGEST_INTEGER, RESERVED, StoredCell

SEED = "seed"
_NUMBERS = ["value", "low", "high", "level", "interval", "num_prompts"]


def short_names(grid: Sequence[str], extra: Sequence[str]) -> dict[str, str]:
    """Column of each swept key but the seed: its last part where that is unambiguous, else the whole name."""
    keys = [key for key in grid if key != SEED]
    taken = [key.rsplit(".", 1)[-1] for key in keys] + list(extra) + list(RESERVED)
    columns = {}
    for key in keys:
        short = key.rsplit(".", 1)[-1]
        whole = f"config.{key}" if key in RESERVED or key in extra else key
        columns[key] = short if taken.count(short) == 1 else whole
    return columns


def per_seed_table(experiment: dict[str, Any], cells: Sequence[StoredCell]) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """The tidy table of all measurements, and the samples of each of its rows."""
    extra: dict[str, None] = {}
    for cell in cells:
        for measurement in cell.record["measurements"]:
            extra.update(dict.fromkeys(measurement["keys"]))
    labels = {cell["id"]: cell["labels"] for cell in experiment["cells"]}
    columns_of = short_names([*experiment["axes"], *experiment["grid"]], list(extra))
    swept = {key: column for key, column in columns_of.items() if key not in experiment["axes"]}
    axes = {axis: columns_of[axis] for axis in experiment["axes"]}
    rows: list[dict[str, Any]] = []
    samples: list[np.ndarray] = []
    for cell in cells:
        config = cell.record["config"]
        point = {column: labels[cell.record["id"]][axis] for axis, column in axes.items()}
        point |= {column: _hashable(look_up(config, key)) for key, column in swept.items()}
        for measurement, drawn in zip(cell.record["measurements"], cell.samples, strict=True):
            rows.append(
                {
                    "experiment": experiment["experiment"],
                    "cell": cell.record["id"],
                    "learner": measurement["learner"],
                    **point,
                    **{key: measurement["keys"].get(key) for key in extra},
                    SEED: config[SEED],
                    "num_examples": measurement["num_examples"],
                    "metric": measurement["metric"],
                    "statistic": measurement["statistic"],
                    **_numbers([drawn], measurement["statistic"]),
                }
            )
            samples.append(drawn)
    further = [*axes.values(), *swept.values(), *extra]
    columns = ["experiment", "cell", "learner", *further, SEED, "num_examples", "metric", "statistic", *_NUMBERS]
    table = pd.DataFrame(rows, columns=columns)
    for column in further:
        table[column] = _column([row[column] for row in rows])
    table["num_examples"] = pd.array([row["num_examples"] for row in rows], dtype="Int64")
    return table, samples


def summary_table(per_seed: pd.DataFrame, samples: Sequence[np.ndarray]) -> pd.DataFrame:
    """Over seeds: the mean of the statistic, its interval, and the value of each seed."""
    keys = coordinates(per_seed)
    order = ["learner", "metric", "statistic", "num_examples"]
    keys = [*order, *(key for key in keys if key not in order)]
    rows: list[dict[str, Any]] = []
    for _, group in per_seed.groupby(keys, sort=False, dropna=False):
        group = group.sort_values(SEED)
        chosen = [samples[row] for row in group.index]
        first = group.iloc[0]
        rows.append(
            {
                **{key: first[key] for key in keys},
                **_numbers(chosen, str(first["statistic"])),
                "num_seeds": len(group),
                "seed_values": group["value"].tolist(),
            }
        )
    table = pd.DataFrame(rows, columns=[*keys, *_NUMBERS, "num_seeds", "seed_values"])
    return table.astype({key: per_seed[key].dtype for key in keys})


def coordinates(per_seed: pd.DataFrame) -> list[str]:
    """Columns that tell measurements of one seed apart."""
    others = {"experiment", "cell", SEED, *_NUMBERS}
    return [column for column in per_seed.columns if column not in others]


def _numbers(samples: list[np.ndarray], statistic: str) -> dict[str, Any]:
    found = interval(samples, statistic)
    exact = statistic == "exact"
    value = pooled_value(samples, statistic) if len(samples) > 1 else float(STATISTICS[statistic](samples[0]))
    return {
        "value": value,
        "low": found.low,
        "high": found.high,
        "level": found.level,
        "interval": found.kind,
        # Prompts of each seed; where seeds differ, the fewest.
        "num_prompts": 0 if exact else min(s.shape[1] for s in samples),
    }


def _column(values: list[Any]) -> Any:
    """Whole numbers stay whole where some rows have none: block 1 must not become block 1.0."""
    present = [value for value in values if value is not None]
    if len(present) < len(values) and all(type(value) is int and abs(value) <= LARGEST_INTEGER for value in present):
        return pd.array(values, dtype="Int64")
    return values


def _hashable(value: object) -> object:
    """Lists and sections as JSON texts, so that rows can be grouped by them."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
