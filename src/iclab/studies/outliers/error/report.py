"""What errors under outliers say: figures over everything that was varied, tables, and a verdict on each claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iclab.results.page import Report
from iclab.results.wording import span
from iclab.studies.outliers.error.coordinates import Coordinate, coordinates, points, without
from iclab.studies.outliers.error.figures import error_figures, placement_figure
from iclab.studies.outliers.error.fraction_claims import fraction_claims
from iclab.studies.outliers.error.placement_claims import (
    claimed_alpha,
    mitigation_notes,
    placement_claims,
    placement_table,
)
from iclab.studies.outliers.error.tables import error_table, tolerance_table, training_table
from iclab.studies.outliers.names import ALPHA, ERROR

if TYPE_CHECKING:
    import pandas as pd

    from iclab.claims.claim import ClaimResult
    from iclab.results.results import Results

_METHODS = (
    "The error is the share of queries whose output has not the sign of the clean label; an output of zero is an "
    "error. Every task has the same number of prompts, so a mean over prompts is one over tasks. All "
    "learners of a seed see the same prompts, and the prompts of two test distributions differ in nothing but what "
    "these say.",
    "Dotted lines are guarantees as published (arXiv 2510.00399), sufficient conditions: alpha < p_a l_tr / l_ts for "
    "the one-layer Mamba and alpha < 1/2 for the one-layer linear Transformer.",
)


def summarise(results: Results) -> Report:
    """Claims, figures and tables of whatever was varied; nothing is averaged over settings."""
    errors = results.summary[results.summary["metric"] == ERROR]
    coords = coordinates(results)
    columns = {coord.column for coord in coords}
    by_placement = "placement" in columns
    claims: list[ClaimResult] = []
    notes: list[str] = []
    if ALPHA in errors:
        for point in points(results, errors, without(coords, [ALPHA])):
            claims.extend(fraction_claims(point, results))
    if by_placement:
        alpha = claimed_alpha(coords)
        rows = errors if alpha is None else errors[errors[ALPHA] == alpha]
        found = points(results, rows, without(coords, ["placement"]))
        claims.extend(claim for point in found for claim in placement_claims(results, point))
        notes.extend(mitigation_notes(results, found))
    return Report(
        claims=claims,
        notes=notes if claims or notes else [_plain(errors, coords)],
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
        methods=_METHODS,
    )


def _plain(errors: pd.DataFrame, coords: Sequence[Coordinate]) -> str:
    varied = ", ".join(coord.letter for coord in coords) or "nothing"
    low, high = errors["value"].min(), errors["value"].max()
    return (
        f"Errors of {span([errors['learner'].nunique()], 'learner')} from {low:.3g} to {high:.3g}; varied: {varied}. "
        "No claim of the paper is about such a grid."
    )
