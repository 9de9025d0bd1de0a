"""What error curves say: figures, paired comparisons, scaling in the dimensions, and the claim about the gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iclab.experiments.error_names import ZERO
from iclab.experiments.error_scaling import scaling
from iclab.experiments.gate_claim import Twins, gate_findings
from iclab.experiments.reading import Figure, Finding, Panel, Reading, Role, Table
from iclab.experiments.series import (
    SHORT_NAMES,
    basis,
    by_learner,
    number,
    place_title,
    places_of,
    present,
    quantity,
    series,
)

if TYPE_CHECKING:
    import pandas as pd

    from iclab.runs.results import Difference, Results


@dataclass(frozen=True)
class Comparison:
    """The model against a rival at one place of the grid."""

    title: str
    place: dict[str, Any]
    rival: str
    num_examples: int
    model_row: pd.Series
    rival_row: pd.Series
    gap: Difference
    zero: float

    @property
    def relation(self) -> str:
        """``better``, ``worse``, or ``like`` where the interval of the difference contains zero."""
        return "better" if self.gap.high < 0 else "worse" if self.gap.low > 0 else "like"


def read(results: Results) -> Reading:
    """Error against N for every place of the grid, comparisons of the first model, and scaling in r and d."""
    summary = results.summary
    errors = summary[summary["metric"] == "squared_error"]
    columns = present(errors, *SHORT_NAMES)
    roles = _roles(results)
    panels, comparisons, rows = [], [], []
    for place, part in places_of(errors, columns):
        title = place_title(columns, place)
        panels.append(_panel(title, part, roles, _pretraining_lengths(results)))
        comparisons.extend(_compare(results, title, dict(zip(columns, place, strict=True)), part, roles))
        rows.extend(_rows(title, part))
    figure = Figure(
        "error",
        "Squared error against the clean target, divided by the label variance, on the same prompts for every learner. "
        "Curves that leave a panel upwards are above 1.6 times the error of predicting zero.",
        panels,
    )
    scaling_figures, scaling_tables, scaling_findings = scaling(errors, roles)
    rivals = list(dict.fromkeys(c.rival for c in comparisons))
    return Reading(
        findings=[
            *gate_findings(_twins(results, comparisons)),
            *scaling_findings,
            *(_comparison_finding(_first_model(roles), [c for c in comparisons if c.rival == r]) for r in rivals),
        ],
        figures=[figure, *scaling_figures],
        tables=[
            *_paired_table(_first_model(roles), comparisons),
            Table(
                "error",
                "Squared error divided by the label variance, with its interval.",
                ["prompts", "learner", "N", "squared error", "rests on"],
                rows,
            ),
            *scaling_tables,
            *_recovery_table(summary, columns),
        ],
        notes=[
            "Errors are against the clean target; results.csv also holds absolute errors and errors against "
            "noisy labels.",
            "The exact curve is the error of reading a Gaussian state that has the exact alignment of the gate: "
            "sum_k c_k^2 (1 - a^(2k)). It is close to the best fixed head while |S_1| varies little from prompt to "
            "prompt, and bounds nothing otherwise.",
            "The oracles are told the support and are calibrated on tasks of their own stream. One reads the direction "
            "of S_1 optimally, normalising each prompt by its own |S_1|, which the model's head cannot do; the other "
            "has the best fixed head for <S_1, x>.",
        ],
    )


def _zero(part: pd.DataFrame) -> float:
    """The error of predicting zero on the prompts of this place."""
    return float(part[part["learner"] == ZERO]["value"].iloc[0])


def _panel(title: str, part: pd.DataFrame, roles: Mapping[str, Role], lengths: list[int]) -> Panel:
    zero = _zero(part)
    return Panel(
        title,
        "context examples N",
        "squared error / label variance",
        [
            series(rows, "num_examples", name, roles.get(name, "theory"))
            for name, rows in by_learner(part, roles)
            if name != ZERO
        ],
        "log2",
        vertical=[(float(n), "N_pt") for n in lengths],
        horizontal=[(zero, "predicting zero")],
        y_limits=(0.0, 1.6 * zero),
    )


def _roles(results: Results) -> dict[str, Role]:
    sections = results.experiment["config"]["learners"]
    return {section["label"] or name: section["role"] for name, section in sections.items()}


def _first_model(roles: Mapping[str, Role]) -> str:
    return next((name for name, role in roles.items() if role == "model"), "")


def _pretraining_lengths(results: Results) -> list[int]:
    """The context lengths that models were pretrained at, each once."""
    sections = results.experiment["config"]["learners"].values()
    return sorted({s["pretraining"]["num_examples"] for s in sections if "pretraining" in s})


def _compare(
    results: Results, title: str, place: dict, part: pd.DataFrame, roles: Mapping[str, Role]
) -> list[Comparison]:
    """The first model against each ablation and baseline, paired prompt by prompt, at the length that the model was
    pretrained at, or the longest shorter one that both reach."""
    model = _first_model(roles)
    home = max(_pretraining_lengths(results), default=0)
    lengths = {name: set(rows["num_examples"]) for name, rows in by_learner(part, roles)}
    found = []
    for rival in lengths:
        shared = lengths.get(model, set()) & lengths[rival]
        if roles.get(rival) not in ("ablation", "baseline") or not shared:
            continue
        n = int(max([n for n in shared if n <= home], default=max(shared)))
        at_n = part[part["num_examples"] == n]
        row, rival_row = (at_n[at_n["learner"] == name].iloc[0] for name in (model, rival))
        gap = results.difference(model, rival, "squared_error", num_examples=n, **place)
        found.append(Comparison(title, place, rival, n, row, rival_row, gap, _zero(part)))
    return found


def _comparison_finding(model: str, found: list[Comparison]) -> Finding:
    """One place in full, many places by count."""
    rests = basis(found[0].model_row)
    if len(found) == 1:
        c = found[0]
        words = {"better": "is better than", "worse": "is worse than", "like": "cannot be told from"}[c.relation]
        return Finding(
            f"At N = {c.num_examples}, {model} {words} {c.rival}: squared error {quantity(c.model_row)} against "
            f"{quantity(c.rival_row)}; paired difference {_gap(c.gap)} ({rests})."
        )
    count = {relation: sum(c.relation == relation for c in found) for relation in ("better", "worse", "like")}
    gaps = [c.gap.value for c in found]
    lengths = sorted({c.num_examples for c in found})
    return Finding(
        f"{model} is better than {found[0].rival} at {count['better']} of {len(found)} places of the grid, worse at "
        f"{count['worse']}, not to be told apart at {count['like']} (paired, N = {', '.join(map(str, lengths))}); the "
        f"difference of squared errors goes from {number(min(gaps))} to {number(max(gaps))} ({rests})."
    )


def _twins(results: Results, comparisons: list[Comparison]) -> list[Twins]:
    """The first model beside the ablation that is the same but for its gate."""
    config = results.experiment["config"]
    ungated = {
        section["label"] or name
        for name, section in config["learners"].items()
        if section["kind"] == "one_layer" and section["role"] == "ablation" and section["gate"] == "linear"
    }
    return [
        Twins(c.title, c.place.get("link", config["prompts"]["link"]), c.num_examples, c.model_row, c.rival_row, c.zero)
        for c in comparisons
        if c.rival in ungated
    ]


def _gap(gap: Difference) -> str:
    return f"{number(gap.value)} ({number(gap.low)} to {number(gap.high)})"


def _paired_table(model: str, comparisons: list[Comparison]) -> list[Table]:
    if not comparisons:
        return []
    rows = [
        [
            c.title,
            c.rival,
            c.num_examples,
            quantity(c.model_row),
            quantity(c.rival_row),
            _gap(c.gap),
            basis(c.model_row),
        ]
        for c in comparisons
    ]
    caption = (
        f"{model} against each rival on the same prompts, at the pretraining length or the longest shorter one that "
        "both reach."
    )
    columns = ["prompts", "rival", "N", "model", "rival's error", "model minus rival, paired", "rests on"]
    return [Table("paired", caption, columns, rows)]


def _rows(title: str, part: pd.DataFrame) -> list[list[str | float | int | None]]:
    lengths = sorted(part["num_examples"].unique())
    shown = part[part["num_examples"].isin({lengths[len(lengths) // 2], lengths[-1]})]
    return [
        [
            title,
            str(r["learner"]),
            int(r["num_examples"]),
            quantity(r),
            "exact" if r["interval"] == "exact" else basis(r),
        ]
        for _, r in shown.iterrows()
    ]


def _recovery_table(summary: pd.DataFrame, columns: list[str]) -> list[Table]:
    recovered = summary[summary["metric"] == "support_auc"]
    if recovered.empty:
        return []
    rows = [
        [place_title(columns, tuple(r[c] for c in columns)), str(r["learner"]), quantity(r), int(r["num_seeds"])]
        for _, r in recovered.iterrows()
    ]
    caption = "Area under the ROC curve of |gamma| on the degree-1 coordinates: does pretraining find the support?"
    return [Table("support", caption, ["prompts", "learner", "area under ROC", "seeds"], rows)]
