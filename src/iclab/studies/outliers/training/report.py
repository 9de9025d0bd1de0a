"""What trainings on prompts with outliers say: curves, where attention concentrates, and how long a level takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iclab.claims.claim import ClaimResult, Estimate
from iclab.claims.li2025 import CONCENTRATION, LEARNED, LOOKED_AT_END
from iclab.claims.rules import judge
from iclab.experiments.roles import Role
from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Panel, Report, Table
from iclab.results.wording import basis, by_learner, interval_note, number, quantity, series
from iclab.studies.outliers.error.conditions import final_loss_text
from iclab.studies.outliers.learners import roles_of
from iclab.studies.outliers.names import TRAINING_LOSS
from iclab.studies.outliers.training.claims import convergence

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


def summarise(results: Results) -> Report:
    """Curves and attention where nothing is varied; steps to a level and their slopes where something is."""
    points = grid_points(results, results.summary, swept_columns(results, own=OWN))
    if "at" in results.summary:
        return convergence(points)
    present = [part for part in _PARTS if part in set(results.summary["part"].dropna())]
    return Report(
        claims=[found for point in points for found in _concentration(point)],
        figures=[
            _curves(points),
            *(_attention(points, part) for part in present),
            _attention(points, "scores", signed=True),
        ],
        tables=[_shares(points)],
        methods=[
            "Attention of a query on an example is p_i' W_B' W_C p_q (for softmax attention, its weight), summed in "
            "absolute value over the context; the gate counts in the figure that says so, not in the other. Patterns "
            "are those of the inputs, whatever label an example shows. At the diagonal start attention already lies on "
            "the query's own pattern, since patterns are orthogonal, so what training adds is the change from step 0."
        ],
    )


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
                parts = [point.title, learner, f"layer {int(layer)}" if len(layers) > 1 else ""]
                curves = [
                    series(at[at["group"] == group], "step", name, role) for group, (name, role) in _GROUPS.items()
                ]
                panels.append(Panel(", ".join(filter(None, parts)), "steps of training", label, curves))
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


def _concentration(point: GridPoint) -> list[ClaimResult]:
    """Judge whether the last layer's attention lies on examples of the query's pattern."""
    found = []
    for name, layer, last, start, end in _ends(point, "scores"):
        if not last:
            continue
        looked, loss = _why_not_looked_at(start, end), final_loss_text(point.rows, name)
        same, different = (_signed(point, name, group) for group in ("same", "different"))
        remarks = [
            f"Of layer {layer}, the last." if layer > 1 else "",
            f"After {int(end['step']):,} steps; before training {number(start['value'])}; 1/2 means no difference.",
            f"With its sign it sums to {same} there and to {different} on the others.",
            looked,
            loss,
        ]
        found.append(
            judge(
                CONCENTRATION,
                Estimate.of(end),
                subject=name,
                at=point.title,
                settings=point.key,
                unmet=LOOKED_AT_END if looked else LEARNED if loss else "",
                remarks=remarks,
            )
        )
    return found


def _why_not_looked_at(start: pd.Series, end: pd.Series) -> str:
    """Why the last look is none at trained models; empty where it is."""
    if end["step"] == 0:
        return "It was looked at before training alone."
    if end["num_seeds"] < start["num_seeds"]:
        return "Its seeds stopped at different steps."
    return ""
