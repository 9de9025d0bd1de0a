"""What Stage I finds of the support, and whether the gate helps it, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iclab.claims.claim import ClaimResult, Estimate
from iclab.claims.claim import Interval as ClaimInterval
from iclab.claims.oh2025 import GATE_CAN_HELP, SUPPORT
from iclab.claims.rules import judge
from iclab.claims.wording import estimate_text
from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Panel, Report, Table
from iclab.results.wording import basis_of, interval_note, plural, quantity, series, span, spread
from iclab.studies.error.gate_claim import gate_can_help
from iclab.studies.support.study import NO_GATE

if TYPE_CHECKING:
    import pandas as pd

    from iclab.evaluation import Interval
    from iclab.results.results import Results

_FOUND = 0.99


@dataclass(frozen=True)
class Gain:
    """The area under the curve with a gate minus that without, averaged over the context lengths that both have, for
    each seed that both have.

    Attributes:
        point: where; its key leaves the gate out.
        gate: the learner with the gate.
        values: one a seed.
        interval: of their mean.
    """

    point: GridPoint
    gate: str
    values: tuple[float, ...]
    interval: Interval

    @property
    def estimate(self) -> Estimate:
        """The mean gain."""
        mean, ends = float(np.mean(self.values)), self.interval
        found = ClaimInterval(ends.low, ends.high, ends.level, ends.kind) if ends.low <= ends.high else None
        return Estimate(mean, found, len(self.values))


def summarise(results: Results) -> Report:
    """Recovery against N_pt, a panel for each grid point, and the gate against none."""
    summary = results.summary[results.summary["metric"] == "support_auc"]
    columns = swept_columns(results, own=("degree",), without=("num_examples", "gate.gate"))
    per_seed = results.per_seed[results.per_seed["metric"] == "support_auc"]
    figures, claims, notes, rows = [], [], [], []
    for degree in (1, 2):
        part = summary[summary["degree"] == degree]
        points = grid_points(results, part, columns)
        rows.extend(row for point in points for row in _rows(point, degree))
        panels, left_out = capped([_panel(point, degree) for point in points], "summary.csv")
        caption = (
            f"Stage I recovery of the support by |gamma*| among the coordinates of degree {degree}; 1 is perfect, 1/2 "
            f"is chance. Points are seeds, each one pretraining. {interval_note(part)}{left_out}"
        )
        figures.append(Figure(f"support-degree-{degree}", caption, panels))
        notes.extend(_notes(part, degree))
        at_seeds = grid_points(results, per_seed[per_seed["degree"] == degree], columns)
        found = [gain for point in at_seeds for gain in gains(point)]
        if degree == 1:
            claims.extend(map(gate_claim, found))
        else:
            notes.extend(_gain_note(gate, [g for g in found if g.gate == gate], degree) for gate in _gates(found))
    return Report(
        claims=claims,
        notes=notes,
        figures=figures,
        tables=[
            Table(
                "support",
                "Area under the ROC curve at the longest pretraining context (interval over seeds).",
                ["prompts", "gate", "degree", "N_pt", "area under ROC", "seeds"],
                rows,
            )
        ],
        methods=[
            "In theory an ungated model can separate the support too, through the variance of S, since its mean is "
            "blind to links with ie > 2; the table shows how far it does here. Stage I alone does not decide whether "
            "the gate matters: the error experiments compare at test time.",
            "Gate against no gate: the area under the curve, averaged over the context lengths, as a difference for "
            "each seed. The claim is about the degree-1 coordinates of links with ge < ie.",
        ],
    )


def gains(point: GridPoint) -> list[Gain]:
    """Compare each gate with no gate at one grid point, of which ``point.rows`` has a row a seed; nothing where one of
    them is missing."""
    from iclab.evaluation import interval

    tables = {
        str(learner): rows.pivot_table(index="seed", columns="num_examples", values="value")
        for learner, rows in point.rows.groupby("learner", sort=False)
    }
    found = []
    for gate, table in tables.items():
        if gate == NO_GATE or NO_GATE not in tables:
            continue
        gap = (table - tables[NO_GATE]).dropna(axis=1, how="all").dropna(axis=0)
        if gap.size:
            values = gap.mean(axis=1).to_numpy()
            found.append(Gain(point, gate, tuple(map(float, values)), interval([np.array([[v]]) for v in values])))
    return found


def gate_claim(gain: Gain) -> ClaimResult:
    """Judge whether the gate helps the one gradient step to find the support."""
    helps = gate_can_help(gain.point.config["prompts"]["link"])
    return judge(
        SUPPORT,
        gain.estimate,
        subject=f"{gain.gate} against no gate",
        at=gain.point.title,
        settings=gain.point.key,
        unmet="" if helps == "yes" else GATE_CAN_HELP,
    )


def _gates(found: Sequence[Gain]) -> list[str]:
    return list(dict.fromkeys(gain.gate for gain in found))


def _gain_note(gate: str, found: Sequence[Gain], degree: int) -> str:
    lead = f"Degree {degree}, {gate} against no gate: the area under the ROC curve changes by"
    seeds = span((gain.estimate.seeds for gain in found), "seed")
    if len(found) == 1:
        return f"{lead} {estimate_text(found[0].estimate)}, paired ({seeds})."
    means = spread(gain.estimate.value for gain in found)
    return f"{lead} {means} over {len(found)} grid points, paired ({seeds} each)."


def _panel(point: GridPoint, degree: int) -> Panel:
    curves = [
        series(group, "num_examples", str(learner), "ablation" if learner == NO_GATE else "model")
        for learner, group in point.rows.groupby("learner", sort=False)
    ]
    return Panel(
        point.title,
        "pretraining context N_pt",
        f"area under ROC, degree {degree}",
        curves,
        "log2",
        horizontal=[(0.5, "chance")],
        y_limits=(0.0, 1.03),
    )


def _rows(point: GridPoint, degree: int) -> list[list[str | float | int | None]]:
    last = point.rows[point.rows["num_examples"] == point.rows["num_examples"].max()]
    return [
        [point.title, str(r["learner"]), degree, int(r["num_examples"]), quantity(r), int(r["num_seeds"])]
        for _, r in last.iterrows()
    ]


def _notes(part: pd.DataFrame, degree: int) -> list[str]:
    notes = []
    for learner, group in part.groupby("learner", sort=False):
        perfect = group[group["value"] >= _FOUND]
        first = ""
        if len(perfect):
            n, shortest = int(perfect["num_examples"].min()), int(group["num_examples"].min())
            first = f", first at N_pt <= {n}, the shortest measured" if n == shortest else f", first at N_pt = {n}"
        notes.append(
            f"Degree {degree}, {learner}: the mean area under the ROC curve is at least {_FOUND} at "
            f"{len(perfect)} of {plural(len(group), 'setting')}{first} ({basis_of(group)} each)."
        )
    return notes
