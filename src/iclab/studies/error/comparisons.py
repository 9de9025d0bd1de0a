"""The first model against each rival, prompt by prompt, at one length; and what may be said of many such pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iclab.claims.rules import MIN_SEEDS
from iclab.errors import InputError
from iclab.experiments.roles import Role
from iclab.results.grid_points import GridPoint
from iclab.results.page import Table
from iclab.results.wording import basis, basis_of_each, by_learner, difference, quantity, span, spread
from iclab.studies.error.names import ZERO

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Difference, Results

_FEW = f"Fewer than {MIN_SEEDS} seeds: no verdict"
_WORDS = {"better": "is better than", "worse": "is worse than", "like": "cannot be told from"}


@dataclass(frozen=True)
class Comparison:
    """The first model against a rival at one grid point; ``zero`` is the error of predicting zero, where measured."""

    point: GridPoint
    rival: str
    num_examples: int
    model_row: pd.Series
    rival_row: pd.Series
    gap: Difference
    zero: float | None

    @property
    def model(self) -> str:
        """The first model's name."""
        return str(self.model_row["learner"])

    @property
    def judged(self) -> bool:
        """Whether there are seeds enough for an interval that says something of other seeds."""
        return self.gap.interval == "bootstrap"

    @property
    def relation(self) -> str:
        """``better``, ``worse``, or ``like`` where the interval of the difference contains zero."""
        return "better" if self.gap.high < 0 else "worse" if self.gap.low > 0 else "like"


def first_model(roles: Mapping[str, Role]) -> str:
    """The learner that the others are compared with."""
    return next((name for name, role in roles.items() if role == "model"), "")


def roles_of(config: dict) -> dict[str, Role]:
    """The role of each learner of a configuration, by its label."""
    return {section["label"] or name: section["role"] for name, section in config["learners"].items()}


def pretraining_lengths(config: dict) -> list[int]:
    """The context lengths that models were pretrained at, each once."""
    sections = config["learners"].values()
    fits = [section[key] for section in sections for key in ("pretraining", "training") if key in section]
    return sorted({fit["num_examples"] for fit in fits})


def zero_error(rows: pd.DataFrame) -> float | None:
    """The error of predicting zero on the prompts of this grid point; ``None`` where it was not measured."""
    values = rows[rows["learner"] == ZERO]["value"]
    return float(values.iloc[0]) if len(values) else None


def compare(results: Results, point: GridPoint) -> list[Comparison]:
    """The first model against each ablation and baseline, paired prompt by prompt, at the length that models were
    pretrained at, or the longest shorter one that both reach. Rivals without the model's seeds are left out."""
    roles = roles_of(point.config)
    model = first_model(roles)
    home = max(pretraining_lengths(point.config), default=0)
    lengths = {name: set(rows["num_examples"]) for name, rows in by_learner(point.rows, roles)}
    found = []
    for rival in lengths:
        shared = lengths.get(model, set()) & lengths[rival]
        if roles.get(rival) not in ("ablation", "baseline") or not shared:
            continue
        n = int(max([n for n in shared if n <= home], default=max(shared)))
        at_n = point.rows[point.rows["num_examples"] == n]
        row, rival_row = (at_n[at_n["learner"] == name].iloc[0] for name in (model, rival))
        try:
            gap = results.difference(model, rival, "squared_error", num_examples=n, **point.key)
        except InputError:
            # Cells of another version may lack a learner: what was not measured on the same seeds has no pairs.
            continue
        found.append(Comparison(point, rival, n, row, rival_row, gap, zero_error(point.rows)))
    return found


def comparison_note(found: Sequence[Comparison]) -> str:
    """Put all comparisons with one rival into words: one grid point in full, several by count."""
    rests = basis_of_each(c.model_row for c in found)
    model, rival = found[0].model, found[0].rival
    if len(found) == 1:
        return _one(model, found[0], rests)
    lengths = ", ".join(map(str, sorted({c.num_examples for c in found})))
    reach = f"the difference of squared errors is {spread(c.gap.value for c in found)} ({rests})"
    judged = [c for c in found if c.judged]
    if not judged:
        below = sum(all(value < 0 for value in c.gap.seed_values) for c in found)
        above = sum(all(value > 0 for value in c.gap.seed_values) for c in found)
        return (
            f"{model} against {rival} at {len(found)} grid points (paired, N = {lengths}): on all of its seeds the "
            f"model has the smaller error at {below}, the larger at {above}; {reach}. {_FEW}."
        )
    count = {relation: sum(c.relation == relation for c in judged) for relation in _WORDS}
    rest = (
        f", not judged at {len(found) - len(judged)} with fewer than {MIN_SEEDS} seeds"
        if len(judged) < len(found)
        else ""
    )
    return (
        f"{model} is better than {rival} at {count['better']} of {len(found)} grid points, worse at "
        f"{count['worse']}, not to be told apart at {count['like']}{rest} (paired, N = {lengths}); {reach}."
    )


def _one(model: str, c: Comparison, rests: str) -> str:
    errors = f"squared error {quantity(c.model_row)} against {quantity(c.rival_row)}"
    at = f"{c.point.prefix}at N = {c.num_examples}"
    at = at[0].upper() + at[1:]
    if c.judged:
        return (
            f"{at}, {model} {_WORDS[c.relation]} {c.rival}: {errors}; paired difference {difference(c.gap)} ({rests})."
        )
    seeds = "on this seed" if c.gap.num_seeds == 1 else f"on these {span([c.gap.num_seeds], 'seed')}"
    return (
        f"{at}, {seeds}: {model} against {c.rival}, {errors}; paired difference {difference(c.gap)} ({rests}). {_FEW}."
    )


def paired_table(comparisons: Sequence[Comparison]) -> list[Table]:
    """Every comparison; no table where there is none."""
    if not comparisons:
        return []
    rows = [
        [
            c.point.title,
            c.rival,
            c.num_examples,
            quantity(c.model_row),
            quantity(c.rival_row),
            difference(c.gap),
            basis(c.model_row),
        ]
        for c in comparisons
    ]
    caption = (
        f"{comparisons[0].model} against each rival on the same prompts, at the pretraining length or "
        "the longest shorter one that both reach."
    )
    columns = ["prompts", "rival", "N", "model", "rival's error", "model minus rival, paired", "rests on"]
    return [Table("paired", caption, columns, rows)]
