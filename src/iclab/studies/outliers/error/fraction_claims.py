"""The claims of arXiv 2510.00399 about the share of outliers, each judged at each place of the grid by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iclab.results.grid_points import GridPoint
from iclab.results.page import Finding, Verdict
from iclab.results.wording import basis_of, number, quantity
from iclab.studies.outliers.error.claims import Judged
from iclab.studies.outliers.error.conditions import is_published, not_learned, outliers_covered, theorem_covers
from iclab.studies.outliers.error.config import no_clean_example
from iclab.studies.outliers.error.coordinates import setting
from iclab.studies.outliers.learners import Trained, learners_of
from iclab.studies.outliers.names import ALPHA

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

LEVELS = (0.01, 0.02)
"""Errors that the paper's figure, and our own check of it, call good."""

_PUBLISHED_ALPHA, _PUBLISHED_FRACTION = 0.8, 0.6


def fraction_claims(point: GridPoint, results: Results | None = None) -> list[Judged]:
    """Mamba's and the linear Transformer's claims at a place at which nothing but alpha varies. They are about outliers
    at random places and the theorems' training law, so other placements and laws are judged elsewhere or not at all.
    Without ``results`` it is not asked whether the trainings reached a small loss."""
    found = []
    if setting(point, "placement") != "random":
        return []
    for learner in learners_of(point.config):
        rows = point.rows[point.rows["learner"] == learner.name].sort_values(ALPHA)
        if rows.empty or learner.section.depth > 1 or not theorem_covers(point, learner):
            continue
        judged: list[Judged] = []
        if learner.section.kind == "gated":
            judged = [*_figure(point, learner, rows), *_guarantee(point, learner, rows)]
        elif learner.section.kind == "linear":
            judged = [*_guarantee(point, learner, rows), *_linear(point, learner, rows)]
        found.extend(item.unless(not_learned(results, point, learner)) for item in judged)
    return found


def upper(row: pd.Series) -> float:
    """The upper end of an error's interval. Where no prompt at all was wrong, the bootstrap's interval is a point; then
    it is 3 divided by the number of prompts (rule of three)."""
    if row["value"] > 0:
        return float(row["high"])
    return 3.0 / max(1, int(row["num_seeds"]) * int(row["num_prompts"]))


def tolerated(rows: pd.DataFrame, level: float) -> float | None:
    """The largest measured alpha up to which, at each measured one, the whole interval of the error lies below
    ``level``; ``None`` if it does not at the first."""
    best = None
    for _, row in rows.sort_values(ALPHA).iterrows():
        if not upper(row) < level:
            break
        best = float(row[ALPHA])
    return best


def tolerated_text(rows: pd.DataFrame, level: float) -> str:
    """`tolerated` in words: ``0.4``, or a bound where the limit lies outside the measured alphas, ``>= 0.8`` or
    ``< 0.1``."""
    alpha, smallest, largest = tolerated(rows, level), float(rows[ALPHA].min()), float(rows[ALPHA].max())
    if alpha is None:
        return f"< {number(smallest)}"
    return f">= {number(alpha)}" if alpha == largest else number(alpha)


def guarantee_holds(rows: pd.DataFrame, guarantee: float, level: float = LEVELS[1], sampling: str = "iid") -> Verdict:
    """Whether the error lies below ``level`` at every measured alpha below the guarantee, but for those at which so
    many prompts have no clean example that no learner's error would. Undecided where no measured alpha is beyond half
    of the guarantee: an error that is small there says little."""
    inside = _answerable(rows[rows[ALPHA] < guarantee - 1e-9], level, sampling)
    if inside.empty or not (inside["interval"] == "bootstrap").all():
        return "information"
    if bool((inside["low"] > level + np.array(_floors(inside, sampling))).any()):
        return "disagrees"
    if inside[ALPHA].max() < guarantee / 2:
        return "undecided"
    return "agrees" if all(upper(row) < level for _, row in inside.iterrows()) else "undecided"


def _figure(point: GridPoint, learner: Trained, rows: pd.DataFrame) -> list[Judged]:
    at = rows[(rows[ALPHA] - _PUBLISHED_ALPHA).abs() < 1e-9]
    if at.empty or not is_published(point, learner, _PUBLISHED_FRACTION):
        return []
    row = at.iloc[0]
    floor = no_clean_example(_PUBLISHED_ALPHA, int(row["num_examples"]), setting(point, "sampling"))
    measured = ", ".join(f"{alpha:g}" for alpha in rows[ALPHA])
    text = (
        f"{point.prefix}the published figure has Mamba's error below 0.01 near alpha = 0.8, at a kappa_a' that we do "
        f"not know, so a larger error at one kappa_a' refutes nothing. Here, at kappa_a' = "
        f"{setting(point, 'outlier_size'):g}, the error of {learner.name} is {quantity(row)} there; a share of "
        f"{floor:.2g} of such prompts has no clean example at all. The whole interval lies {_reach(rows)} (measured at "
        f"alpha = {measured}; {basis_of(rows)})."
    )
    claim = f"Claim 'the error of {learner.name} is below 0.01 at alpha = 0.8'"
    return [Judged(claim, point.title, Finding(text, _against(row, LEVELS[0])))]


def _guarantee(point: GridPoint, learner: Trained, rows: pd.DataFrame) -> list[Judged]:
    limit = learner.guarantee(int(rows["num_examples"].iloc[0]))
    inside = rows[rows[ALPHA] < (limit or 0) - 1e-9]
    if limit is None or inside.empty:
        return []
    worst = _worst(inside)
    where = f", at alpha = {worst[ALPHA]:g}" if worst["value"] > 0 else ""
    gated = learner.section.kind == "gated"
    model, formula = ("Mamba", f"p_a l_tr / l_ts = {limit:g}") if gated else ("the linear Transformer", "1/2")
    sampling = setting(point, "sampling")
    covered, answerable = outliers_covered(point), _answerable(inside, LEVELS[1], sampling)
    hopeless = [number(alpha) for alpha in inside[ALPHA] if alpha not in set(answerable[ALPHA])]
    left = (
        f" Not judged: alpha = {', '.join(hopeless)}, where a share of {LEVELS[1]:g} or more of the prompts has no "
        "clean example at all."
        if hopeless
        else ""
    )
    conditions = "" if covered else " The theorem asks for a sum of lambda > 0, which these outliers lack: no verdict."
    text = (
        f"{point.prefix}the published guarantee of {model} is alpha < {formula}. The largest error of "
        f"{learner.name} at the alphas measured below that is {quantity(worst)}{where}; the whole interval lies "
        f"{_reach(rows)} ({basis_of(rows)}). The verdict takes an error below {LEVELS[1]:g} for a guarantee that holds."
        f"{left}{conditions}"
    )
    claim = f"Claim 'the error of {learner.name} is small (below {LEVELS[1]:g}) for alpha < {formula.split(' = ')[0]}'"
    verdict = guarantee_holds(rows, limit, sampling=sampling) if covered else "information"
    return [Judged(claim, point.title, Finding(text, verdict))]


def _linear(point: GridPoint, learner: Trained, rows: pd.DataFrame) -> list[Judged]:
    beyond, below = rows[rows[ALPHA] > 0.5], rows[rows[ALPHA] < 0.5]
    if setting(point, "label_rule") != "flipped" or beyond.empty:
        return []
    told = "; ".join(f"{quantity(r)} at alpha = {r[ALPHA]:g}" for _, r in rows[rows[ALPHA] >= 0.5].iterrows())
    worst = f" Below 1/2 its largest error is {quantity(_worst(below))}." if len(below) else ""
    verdict: Verdict = "undecided"
    if not (beyond["interval"] == "bootstrap").all():
        verdict = "information"
    elif bool((beyond["low"] > 0.5).all()):
        verdict = "agrees"
    elif bool((beyond["high"] < 0.5).any()):
        verdict = "disagrees"
    claim = f"Claim '{learner.name} fails (error above 1/2) where more than half of the labels are flipped'"
    text = f"{point.prefix}c{claim[1:]}: its error is {told}.{worst} Guessing has 0.5 ({basis_of(rows)})."
    return [Judged(claim, point.title, Finding(text, verdict))]


def _reach(rows: pd.DataFrame) -> str:
    def told(level: float) -> str:
        alpha = tolerated(rows, level)
        if alpha is None:
            return f"below {level:g} at no alpha measured"
        end = ", the largest measured" if alpha == rows[ALPHA].max() else ""
        return f"below {level:g} up to alpha = {number(alpha)}{end}"

    return " and ".join(told(level) for level in LEVELS)


def _worst(rows: pd.DataFrame) -> pd.Series:
    return rows.sort_values("value").iloc[-1]


def _answerable(rows: pd.DataFrame, level: float, sampling: str) -> pd.DataFrame:
    """The rows at which fewer prompts than a share ``level`` have no clean example."""
    return rows[[floor < level for floor in _floors(rows, sampling)]]


def _floors(rows: pd.DataFrame, sampling: str) -> list[float]:
    """Of each row, the share of prompts that have no clean example."""
    return [no_clean_example(float(row[ALPHA]), int(row["num_examples"]), sampling) for _, row in rows.iterrows()]


def _against(row: pd.Series, level: float) -> Verdict:
    """Whether the error lies below ``level``. A larger one refutes nothing: the figure's kappa_a' is not known."""
    if row["interval"] != "bootstrap":
        return "information"
    return "agrees" if upper(row) < level else "undecided"
