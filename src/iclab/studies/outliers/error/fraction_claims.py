"""The claims of arXiv 2510.00399 about the share of outliers, each judged at each grid point by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iclab.claims.claim import Claim, ClaimResult, Estimate
from iclab.claims.li2025 import FIGURE, LEARNED, LEVELS, LINEAR_FAILS, LINEAR_TOLERATES, MAMBA_TOLERATES, POSITIVE_SUM
from iclab.claims.rules import judge, upper_end
from iclab.results.grid_points import GridPoint
from iclab.results.wording import number, quantity
from iclab.studies.outliers.error.conditions import (
    final_loss_text,
    is_published,
    outliers_covered,
    theorem_covers,
    training_rows,
)
from iclab.studies.outliers.error.config import no_clean_example
from iclab.studies.outliers.error.coordinates import setting
from iclab.studies.outliers.learners import Trained, learners_of
from iclab.studies.outliers.names import ALPHA

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

_PUBLISHED_ALPHA, _PUBLISHED_FRACTION = 0.8, 0.6


def fraction_claims(point: GridPoint, results: Results | None = None) -> list[ClaimResult]:
    """Judge Mamba's and the linear Transformer's claims at a grid point at which nothing but alpha varies.

    They are about outliers at random positions and the theorems' training distribution, so other placements and
    distributions are judged elsewhere or not at all.

    Args:
        point: rows of the summary.
        results: of the run; without them it is not asked whether the trainings reached a small loss.
    """
    found: list[ClaimResult] = []
    if setting(point, "placement") != "random":
        return []
    for learner in learners_of(point.config):
        rows = point.rows[point.rows["learner"] == learner.name].sort_values(ALPHA)
        if rows.empty or learner.section.depth > 1 or not theorem_covers(point, learner):
            continue
        loss = final_loss_text(training_rows(results, point, learner), learner.name)
        if learner.section.kind == "gated":
            found.extend([*_figure(point, learner, rows, loss), *_guarantee(point, learner, rows, loss)])
        elif learner.section.kind == "linear":
            found.extend([*_guarantee(point, learner, rows, loss), *_failure(point, learner, rows, loss)])
    return found


def tolerated(rows: pd.DataFrame, level: float) -> float | None:
    """Return the largest measured alpha up to which, at each measured one, the whole interval of the error lies below
    ``level``; ``None`` if it does not at the first."""
    best = None
    for _, row in rows.sort_values(ALPHA).iterrows():
        if not upper_end(row["value"], row["high"], int(row["num_seeds"]) * int(row["num_prompts"])) < level:
            break
        best = float(row[ALPHA])
    return best


def tolerated_text(rows: pd.DataFrame, level: float) -> str:
    """Format `tolerated`: ``0.4``, or a bound where the limit lies outside the measured alphas, ``>= 0.8`` or
    ``< 0.1``."""
    alpha, smallest, largest = tolerated(rows, level), float(rows[ALPHA].min()), float(rows[ALPHA].max())
    if alpha is None:
        return f"< {number(smallest)}"
    return f">= {number(alpha)}" if alpha == largest else number(alpha)


def _figure(point: GridPoint, learner: Trained, rows: pd.DataFrame, loss: str) -> list[ClaimResult]:
    at = rows[(rows[ALPHA] - _PUBLISHED_ALPHA).abs() < 1e-9]
    if at.empty or not is_published(point, learner, _PUBLISHED_FRACTION):
        return []
    floor = no_clean_example(_PUBLISHED_ALPHA, int(at.iloc[0]["num_examples"]), setting(point, "sampling"))
    remarks = [
        f"The figure's kappa_a' is not known; here it is {setting(point, 'outlier_size'):g}.",
        f"A share of {floor:.2g} of such prompts has no clean example at all.",
        _reach(rows),
    ]
    return [_judge(FIGURE, point, learner, at, loss, remarks)]


def _guarantee(point: GridPoint, learner: Trained, rows: pd.DataFrame, loss: str) -> list[ClaimResult]:
    """Judge whether the error lies below the level at every measured alpha below the guarantee, but for those at which
    so many prompts have no clean example that no learner's error would. Where no measured alpha is beyond half of the
    guarantee a small error says little."""
    limit = learner.guarantee(int(rows["num_examples"].iloc[0]))
    inside = rows[rows[ALPHA] < (limit or 0) - 1e-9]
    if limit is None or inside.empty:
        return []
    claim = MAMBA_TOLERATES if learner.section.kind == "gated" else LINEAR_TOLERATES
    floors = _floors(inside, setting(point, "sampling"))
    answerable = [floor < claim.threshold for floor in floors]
    hopeless = [number(alpha) for alpha, kept in zip(inside[ALPHA], answerable, strict=True) if not kept]
    measured = inside[answerable]
    remarks = [f"The guarantee is alpha < {limit:g}.", _reach(rows)]
    if hopeless:
        remarks.append(
            f"Not judged: alpha = {', '.join(hopeless)}, where a share of {claim.threshold:g} or more of the prompts "
            "has no clean example at all."
        )
    unmet = "" if outliers_covered(point) else POSITIVE_SUM
    slack = [floor for floor, kept in zip(floors, answerable, strict=True) if kept]
    too_little = bool(len(measured) and measured[ALPHA].max() < limit / 2)
    return [_judge(claim, point, learner, measured, loss, remarks, unmet, slack, too_little=too_little)]


def _failure(point: GridPoint, learner: Trained, rows: pd.DataFrame, loss: str) -> list[ClaimResult]:
    beyond, below = rows[rows[ALPHA] > 0.5], rows[rows[ALPHA] < 0.5]
    if setting(point, "label_rule") != "flipped" or beyond.empty:
        return []
    half = [f"At alpha = 0.5 the error is {quantity(row)}." for _, row in rows[rows[ALPHA] == 0.5].iterrows()]
    if len(below):
        half.append(f"Below 1/2 its largest error is {quantity(below.sort_values('value').iloc[-1])}.")
    return [_judge(LINEAR_FAILS, point, learner, beyond, loss, [*half, "Guessing has 0.5."])]


def _judge(
    claim: Claim,
    point: GridPoint,
    learner: Trained,
    rows: pd.DataFrame,
    loss: str,
    remarks: list[str],
    unmet: str = "",
    slack: list[float] | None = None,
    *,
    too_little: bool = False,
) -> ClaimResult:
    """``loss`` says that the training did not reach a small one; empty where it did."""
    numbers = [Estimate.of(row, label=f"at alpha = {row[ALPHA]:g}", share=True) for _, row in rows.iterrows()]
    if slack is not None:
        numbers = [replace(found, slack=more) for found, more in zip(numbers, slack, strict=True)]
    return judge(
        claim,
        numbers,
        subject=learner.name,
        at=point.title,
        settings=point.key,
        unmet=unmet or (LEARNED if loss else ""),
        too_little=too_little,
        remarks=[*remarks, loss],
    )


def _reach(rows: pd.DataFrame) -> str:
    def up_to(level: float) -> str:
        alpha = tolerated(rows, level)
        if alpha is None:
            return f"below {level:g} at no alpha measured"
        end = ", the largest measured" if alpha == rows[ALPHA].max() else ""
        return f"below {level:g} up to alpha = {number(alpha)}{end}"

    measured = ", ".join(f"{alpha:g}" for alpha in rows[ALPHA])
    return f"The whole interval lies {' and '.join(map(up_to, LEVELS))} (measured at alpha = {measured})."


def _floors(rows: pd.DataFrame, sampling: str) -> list[float]:
    """Of each row, the share of prompts that have no clean example."""
    return [no_clean_example(float(row[ALPHA]), int(row["num_examples"]), sampling) for _, row in rows.iterrows()]
