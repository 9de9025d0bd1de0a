"""What errors under outliers say: figures over everything that was varied, tables, and a verdict on each claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iclab.results.page import Finding, Reading
from iclab.results.wording import span
from iclab.studies.outliers.error.claims import Judged, findings_of
from iclab.studies.outliers.error.coordinates import Coordinate, coordinates, points, without
from iclab.studies.outliers.error.figures import error_figures, placement_figure
from iclab.studies.outliers.error.fraction_claims import fraction_claims
from iclab.studies.outliers.error.placement_claims import (
    claimed_alpha,
    mitigation_claims,
    placement_claims,
    placement_table,
)
from iclab.studies.outliers.error.tables import error_table, tolerance_table, training_table
from iclab.studies.outliers.names import ALPHA, ERROR

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

_NOTES = (
    "The error is the share of queries whose output has not the sign of the clean label; an output of zero is an "
    "error. Every task of the test law has the same number of prompts, so a mean over prompts is one over tasks. All "
    "learners of a seed see the same prompts, and the prompts of two test laws differ in nothing but what these say.",
    "Dotted lines are guarantees as published (arXiv 2510.00399), sufficient conditions: alpha < p_a l_tr / l_ts for "
    "the one-layer Mamba and alpha < 1/2 for the one-layer linear Transformer.",
    "How verdicts are reached: from whole 95 % intervals over at least 5 seeds, at each place of the grid by itself; "
    "where no query at all was wrong, the upper end is taken to be 3 divided by the number of prompts. An interval "
    "that reaches over the claimed number decides nothing, and fewer than 5 seeds give no verdict.",
)


def summarise(results: Results) -> Reading:
    """Figures, tables and findings of whatever was varied; nothing is averaged over settings."""
    errors = results.summary[results.summary["metric"] == ERROR]
    coords = coordinates(results)
    columns = {coord.column for coord in coords}
    by_placement = "placement" in columns
    judged: list[Judged] = []
    if ALPHA in errors:
        for point in points(results, errors, without(coords, [ALPHA])):
            judged.extend(fraction_claims(point, results))
    if by_placement:
        alpha = claimed_alpha(coords)
        rows = errors if alpha is None else errors[errors[ALPHA] == alpha]
        found = points(results, rows, without(coords, ["placement"]))
        judged.extend(claim for point in found for claim in placement_claims(results, point))
        judged.extend(claim for point in found for claim in mitigation_claims(results, point))
    return Reading(
        findings=findings_of(judged) or [_plain(errors, coords)],
        figures=[
            *(placement_figure(results, errors, coords) if by_placement else []),
            *error_figures(results, coords),
        ],
        tables=[
            *(placement_table(results, errors, coords) if by_placement else []),
            *(tolerance_table(results, errors, coords) if ALPHA in columns else []),
            *error_table(results, errors, coords),
            *training_table(results, coords),
        ],
        notes=_NOTES,
    )


def _plain(errors: pd.DataFrame, coords: Sequence[Coordinate]) -> Finding:
    varied = ", ".join(coord.letter for coord in coords) or "nothing"
    low, high = errors["value"].min(), errors["value"].max()
    return Finding(
        f"Errors of {span([errors['learner'].nunique()], 'learner')} from {low:.3g} to {high:.3g}; varied: {varied}. "
        "No claim of the paper is about such a grid."
    )
