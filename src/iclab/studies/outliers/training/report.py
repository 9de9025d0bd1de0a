"""What trainings on prompts with outliers say: curves, where attention concentrates, and how long a level takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from iclab.experiments.roles import Role
from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Finding, Panel, Reading, Table, Verdict
from iclab.results.wording import basis, by_learner, interval_note, number, quantity, series
from iclab.studies.outliers.names import TRAINING_LOSS
from iclab.studies.outliers.training.claims import convergence
from iclab.studies.outliers.training.learned import unlearned

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

OWN = ("step", "layer", "part", "group", "loss_level", "axis", "at")
_CURVES = {TRAINING_LOSS: "hinge loss", "training_error": "0-1 error"}
_PARTS = {"scores": "attention", "weights": "attention times gate"}
_GROUPS: dict[str, tuple[str, Role]] = {
    "same": ("examples of the query's pattern", "model"),
    "different": ("examples of the other pattern", "ablation"),
}


def summarise(results: Results) -> Reading:
    """Curves and attention where nothing is varied; steps to a level and their slopes where something is."""
    columns = swept_columns(results, own=OWN)
    points = grid_points(results, results.summary, columns)
    findings: list[Finding] = []
    figures: list[Figure] = []
    tables: list[Table] = []
    notes: list[str] = []
    if "at" in results.summary:
        findings, figures, tables, notes = convergence(points)
    else:
        figures.append(_curves(points))
        present = [part for part in _PARTS if part in set(results.summary["part"].dropna())]
        figures.extend(_attention(points, part) for part in present)
        figures.append(_attention(points, "scores", signed=True))
        tables.append(_shares(points))
        findings.extend(finding for point in points for finding in _concentration(point))
        notes.append(
            "Attention of a query on an example is p_i' W_B' W_C p_q (for softmax attention, its weight), summed in "
            "absolute value over the context; the gate counts in the figure that says so, not in the other. Patterns "
            "are those of the inputs, whatever label an example shows. At the diagonal start attention already lies on "
            "the query's own pattern, since patterns are orthogonal, so what training adds is the change from step 0."
        )
    return Reading(findings=findings, figures=figures, tables=tables, notes=notes)


def roles_of(config: Mapping) -> dict[str, Role]:
    """The role of each learner by the name that it has in the results."""
    from iclab.experiments.sections.outliers import AttentionLearner

    sections = [AttentionLearner(**section) for section in config["learners"].values()]
    return {section.name: section.role for section in sections}


def _curves(points: list[GridPoint]) -> Figure:
    panels = []
    for point in points:
        roles = roles_of(point.config)
        for metric, label in _CURVES.items():
            rows = point.rows[point.rows["metric"] == metric]
            curves = [series(part, "step", name, roles.get(name, "model")) for name, part in by_learner(rows, roles)]
            title = f"{point.title}, {label}" if point.title else label
            panels.append(Panel(title, "steps of training", label, curves, x_scale="log"))
    shown, left_out = capped(panels, "summary.csv")
    rows = point_rows(points, list(_CURVES))
    caption = (
        "Mean hinge loss and 0-1 error of the fresh prompts of training, window by window. "
        f"{interval_note(rows)}{left_out}"
    )
    return Figure("curves", caption, shown)


def _attention(points: list[GridPoint], part: str, signed: bool = False) -> Figure:
    metric, label = (
        ("signed_attention", f"sum of {_PARTS[part]}") if signed else ("attention", f"sum of |{_PARTS[part]}|")
    )
    panels = []
    for point in points:
        rows = point.rows[(point.rows["metric"] == metric) & (point.rows["part"] == part)]
        for learner, of_learner in by_learner(rows, roles_of(point.config)):
            layers = sorted(of_learner["layer"].unique())
            for layer in layers:
                at = of_learner[of_learner["layer"] == layer]
                told = [point.title, learner, f"layer {int(layer)}" if len(layers) > 1 else ""]
                curves = [
                    series(at[at["group"] == group], "step", name, role) for group, (name, role) in _GROUPS.items()
                ]
                panels.append(Panel(", ".join(filter(None, told)), "steps of training", label, curves))
    shown, left_out = capped(panels, "summary.csv")
    what = f"{_PARTS[part]} of the query{', last layer, with its sign' if signed else ', in absolute value'}"
    caption = (
        f"{what[0].upper()}{what[1:]}, summed over the examples that share its pattern and over the others, while the "
        f"model is trained. {interval_note(point_rows(points, [metric]))}{left_out}"
    )
    ending = "-signed" if signed else "-gated" if part == "weights" else ""
    return Figure(f"attention{ending}", caption, shown)


def point_rows(points: list[GridPoint], metrics: list[str]) -> pd.DataFrame:
    """All rows of some metrics."""
    import pandas as pd

    return pd.concat([point.rows[point.rows["metric"].isin(metrics)] for point in points])


def _ends(point: GridPoint, part: str) -> list[tuple[str, int, bool, pd.Series, pd.Series]]:
    """Learner, layer, whether it is the last one, and the share of the query's pattern at the first and last look."""
    rows = point.rows[(point.rows["metric"] == "same_share") & (point.rows["part"] == part)]
    found = []
    for name, of_learner in by_learner(rows, roles_of(point.config)):
        for layer in sorted(of_learner["layer"].unique()):
            ordered = of_learner[of_learner["layer"] == layer].sort_values("step")
            last = bool(layer == of_learner["layer"].max())
            found.append((name, int(layer), last, ordered.iloc[0], ordered.iloc[-1]))
    return found


def _signed(point: GridPoint, learner: str, group: str) -> str:
    """The signed sum of the last layer's attention at the end of training."""
    rows = point.rows[(point.rows["metric"] == "signed_attention") & (point.rows["part"] == "scores")]
    rows = rows[(rows["learner"] == learner) & (rows["group"] == group)]
    return number(rows.sort_values("step")["value"].iloc[-1])


def _shares(points: list[GridPoint]) -> Table:
    rows = [
        [point.title, name, layer, _PARTS[part], quantity(start), quantity(end), int(end["step"]), basis(end)]
        for point in points
        for part in _PARTS
        for name, layer, _, start, end in _ends(point, part)
    ]
    return Table(
        "attention",
        "Share of the absolute attention that lies on examples of the query's pattern, before training and at its end. "
        "Half of the examples have that pattern, so attention that looks at all alike has 1/2.",
        ["prompts", "learner", "layer", "of", "at step 0", "at the end", "steps", "rests on"],
        rows,
    )


def _concentration(point: GridPoint) -> list[Finding]:
    """Whether the last layer's attention lies on examples of the query's pattern."""
    findings = []
    for name, layer, last, start, end in _ends(point, "scores"):
        if not last:
            continue
        where = "" if layer == 1 else f" of layer {layer}, the last,"
        text = (
            f"{point.prefix}{name}: attention{where} after {int(end['step']):,} steps lies to {quantity(end)} on "
            f"examples of the query's pattern ({number(start['value'])} before training; 1/2 if it made no difference; "
            f"{basis(end)}). With its sign it sums to {_signed(point, name, 'same')} there and to "
            f"{_signed(point, name, 'different')} on the others."
        )
        if reason := _no_verdict(point, name, start, end):
            findings.append(Finding(f"{text} {reason}"))
            continue
        verdict: Verdict = "agrees" if end["low"] > 0.5 else "disagrees" if end["high"] < 0.5 else "undecided"
        findings.append(Finding(f"{text} Claim: it concentrates there; in absolute value.", verdict))
    return findings


def _no_verdict(point: GridPoint, learner: str, start: pd.Series, end: pd.Series) -> str:
    """Why the last look at a learner is no evidence; empty where it is."""
    if end["step"] == 0:
        return "It was looked at before training alone: no verdict."
    if end["num_seeds"] < start["num_seeds"]:
        return "Its seeds stopped at different steps: no verdict."
    if end["interval"] != "bootstrap":
        return "Fewer than 5 seeds: no verdict."
    return unlearned(point.rows, learner)
