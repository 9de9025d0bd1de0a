"""What error curves say: figures, paired comparisons, scaling in the dimensions, and the claim about the gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from iclab.experiments.roles import Role
from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Panel, Report, Table
from iclab.results.wording import abscissa, basis, by_learner, interval_note, quantity, series
from iclab.studies.error.comparisons import (
    Comparison,
    compare,
    comparison_note,
    paired_table,
    pretraining_lengths,
    roles_of,
    zero_error,
)
from iclab.studies.error.gate_claim import gate_claim
from iclab.studies.error.kernels import kernel_notes, kernel_stops, tuning_table
from iclab.studies.error.names import ZERO
from iclab.studies.error.scaling import scaling
from iclab.studies.error.training import training

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

_METHODS = (
    "Errors are against the clean target; results.csv also holds absolute errors and errors against noisy labels.",
    "The exact curve is the error of reading a Gaussian state that has the exact alignment of the gate: "
    "sum_k c_k^2 (1 - a^(2k)). It is close to the best fixed head while |S_1| varies little from prompt to "
    "prompt, and bounds nothing otherwise.",
    "The oracles know the support and are calibrated on tasks of their own stream. One reads the direction "
    "of S_1 optimally, normalising each prompt by its own |S_1|, which the model's head cannot do; the other "
    "has the best fixed head for <S_1, x>.",
)


def summarise(results: Results) -> Report:
    """Error against N at every grid point, comparisons of the first model, and scaling in r and d."""
    summary = results.summary
    columns = swept_columns(results, own=("step",))
    errors = summary[summary["metric"] == "squared_error"]
    points = grid_points(results, errors, columns)
    roles: dict[str, Role] = {}
    for point in points:
        roles |= roles_of(point.config)
    comparisons = [c for point in points for c in compare(results, point)]
    panels, left_out = capped([_panel(point, roles) for point in points], "summary.csv")
    tuned = dict.fromkeys(note for point in points for note in kernel_notes(point.config))
    stops = dict.fromkeys(stop for point in points for stop in kernel_stops(point.config))
    figure = Figure(
        "error",
        "Squared error against the clean target, divided by the label variance, on the same prompts for every "
        "learner. The axes end at 1.6 times the error of predicting zero, the largest of the panels. "
        f"{' '.join([interval_note(errors), *stops])}{left_out}",
        panels,
    )
    scaling_figures, scaling_tables, scaling_claims = scaling(results, columns, roles)
    training_figures, training_tables = training(results, columns, roles)
    return Report(
        claims=[*filter(None, map(gate_claim, comparisons)), *scaling_claims],
        notes=_rivals(comparisons),
        figures=[figure, *scaling_figures, *training_figures],
        tables=[
            *paired_table(comparisons),
            Table(
                "error",
                "Squared error divided by the label variance, with its interval, at the middle and the largest context "
                "length; summary.csv has all of them.",
                ["prompts", "learner", "N", "squared error", "rests on"],
                [row for point in points for row in _rows(point)],
            ),
            *scaling_tables,
            *training_tables,
            *_recovery_table(results, columns),
            *tuning_table(grid_points(results, summary, columns)),
        ],
        methods=[*_METHODS, *tuned],
    )


def _rivals(comparisons: list[Comparison]) -> list[str]:
    rivals = dict.fromkeys(c.rival for c in comparisons)
    return [comparison_note([c for c in comparisons if c.rival == rival]) for rival in rivals]


def _panel(point: GridPoint, roles: Mapping[str, Role]) -> Panel:
    zero = zero_error(point.rows)
    return Panel(
        point.title,
        "context examples N",
        "squared error / label variance",
        [
            series(rows, "num_examples", name, roles.get(name, "theory"))
            for name, rows in by_learner(point.rows, roles)
            if name != ZERO
        ],
        abscissa(point.rows["num_examples"]),
        vertical=[(float(n), "N_pt") for n in pretraining_lengths(point.config)],
        horizontal=[] if zero is None else [(zero, "predicting zero")],
        y_limits=(0.0, 1.6 * zero) if zero else None,
    )


def _rows(point: GridPoint) -> list[list[str | float | int | None]]:
    lengths = sorted(point.rows["num_examples"].unique())
    shown = point.rows[point.rows["num_examples"].isin({lengths[len(lengths) // 2], lengths[-1]})]
    return [
        [
            point.title,
            str(r["learner"]),
            int(r["num_examples"]),
            quantity(r),
            "exact" if r["interval"] == "exact" else basis(r),
        ]
        for _, r in shown.iterrows()
    ]


def _recovery_table(results: Results, columns: list[str]) -> list[Table]:
    recovered: pd.DataFrame = results.summary[results.summary["metric"] == "support_auc"]
    if recovered.empty:
        return []
    rows = [
        [point.title, str(r["learner"]), quantity(r), int(r["num_seeds"])]
        for point in grid_points(results, recovered, columns)
        for _, r in point.rows.iterrows()
    ]
    caption = (
        "Area under the ROC curve of |gamma| on the degree-1 coordinates: does pretraining find the support? One "
        f"number a seed. {interval_note(recovered)}"
    )
    return [Table("support", caption, ["prompts", "learner", "area under ROC", "seeds"], rows)]
