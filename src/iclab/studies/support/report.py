"""What Stage I finds of the support, and whether the gate helps it, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Finding, Panel, Reading, Table, Verdict
from iclab.results.wording import basis_of, interval_note, number, plural, quantity, series, span, spread
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
        place: where; its key leaves the gate out.
        gate: the learner with the gate.
        values: one a seed.
        interval: of their mean.
    """

    point: GridPoint
    gate: str
    values: tuple[float, ...]
    interval: Interval

    @property
    def judged(self) -> bool:
        """Whether there are seeds enough (5) for a verdict."""
        return self.interval.kind == "bootstrap"


def summarise(results: Results) -> Reading:
    """Recovery against N_pt, a panel for each place of the grid, and the gate against none."""
    summary = results.summary[results.summary["metric"] == "support_auc"]
    columns = swept_columns(results, own=("degree",), without=("num_examples", "gate.gate"))
    per_seed = results.per_seed[results.per_seed["metric"] == "support_auc"]
    figures, findings, rows = [], [], []
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
        findings.extend(_findings(part, degree))
        at_seeds = grid_points(results, per_seed[per_seed["degree"] == degree], columns)
        findings.extend(gate_findings([gain for point in at_seeds for gain in gains(point)], degree))
    return Reading(
        findings=findings,
        figures=figures,
        tables=[
            Table(
                "support",
                "Area under the ROC curve at the longest pretraining context (interval over seeds).",
                ["prompts", "gate", "degree", "N_pt", "area under ROC", "seeds"],
                rows,
            )
        ],
        notes=[
            "In theory an ungated model can separate the support too, through the variance of S, since its mean is "
            "blind to links with ie > 2; the table shows how far it does here. Stage I alone does not decide whether "
            "the gate matters: the error experiments compare at test time.",
            "Gate against no gate: the area under the curve, averaged over the context lengths, as a difference for "
            "each seed. The claim is judged on the degree-1 coordinates of links with ge < ie, and decided only if all "
            "places of the grid agree.",
        ],
    )


def gains(point: GridPoint) -> list[Gain]:
    """Each gate against no gate at one place; ``place.rows`` has a row a seed. None where one of them is missing."""
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


def gate_findings(found: Sequence[Gain], degree: int) -> list[Finding]:
    """Does the gate help the one gradient step to find the support?"""
    findings = []
    for gate in dict.fromkeys(gain.gate for gain in found):
        of_gate = [gain for gain in found if gain.gate == gate]
        claimed = [g for g in of_gate if degree == 1 and gate_can_help(g.point.config["prompts"]["link"]) == "yes"]
        others = [gain for gain in of_gate if gain not in claimed]
        if claimed:
            findings.append(_claim(gate, claimed))
        if others:
            findings.append(Finding(f"Degree {degree}, {gate} against no gate: {_told(others)}"))
    return findings


def _claim(gate: str, claimed: Sequence[Gain]) -> Finding:
    judged = [gain for gain in claimed if gain.judged]
    better = sum(gain.interval.low > 0 for gain in judged)
    worse = sum(gain.interval.high < 0 for gain in judged)
    verdict: Verdict = "undecided"
    if not judged:
        verdict = "information"
    elif better == len(claimed):
        verdict = "agrees"
    elif worse == len(claimed):
        verdict = "disagrees"
    count = f" Better at {better} of {plural(len(claimed), 'place')}, worse at {worse}." if judged else ""
    few = "" if len(judged) == len(claimed) else " Fewer than 5 seeds: no verdict" + (" there." if judged else ".")
    return Finding(
        f"Claim 'with ge < ie the gate lets Stage I find the support', degree 1, {gate} against no gate: "
        f"{_told(claimed)}{count}{few}",
        verdict,
    )


def _told(found: Sequence[Gain]) -> str:
    seeds = span((len(gain.values) for gain in found), "seed")
    means = [float(np.mean(gain.values)) for gain in found]
    if len(found) == 1:
        ends = found[0].interval
        interval = "" if np.isnan(ends.low) else f" ({number(ends.low)} to {number(ends.high)})"
        return f"the area under the ROC curve changes by {number(means[0])}{interval}, paired ({seeds})."
    return f"the area under the ROC curve changes by {spread(means)} over {len(found)} places, paired ({seeds} each)."


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


def _findings(part: pd.DataFrame, degree: int) -> list[Finding]:
    findings = []
    for learner, group in part.groupby("learner", sort=False):
        perfect = group[group["value"] >= _FOUND]
        first = ""
        if len(perfect):
            n, shortest = int(perfect["num_examples"].min()), int(group["num_examples"].min())
            first = f", first at N_pt <= {n}, the shortest measured" if n == shortest else f", first at N_pt = {n}"
        findings.append(
            Finding(
                f"Degree {degree}, {learner}: the mean area under the ROC curve is at least {_FOUND} at "
                f"{len(perfect)} of {plural(len(group), 'setting')}{first} ({basis_of(group)} each)."
            )
        )
    return findings
