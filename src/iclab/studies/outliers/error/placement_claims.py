"""Where the outliers stand: the placement table of arXiv 2510.00399, its claims, and what other trainings change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iclab.claims.claim import ClaimResult, Estimate
from iclab.claims.li2025 import COLLAPSE, LEARNED, NO_COLLAPSE, PUBLISHED
from iclab.claims.rules import judge
from iclab.results.grid_points import GridPoint
from iclab.results.page import Table
from iclab.results.results import Difference
from iclab.results.wording import basis, basis_of_each, difference, number
from iclab.studies.outliers.error.conditions import final_loss_text, is_published, theorem_covers, training_rows
from iclab.studies.outliers.error.coordinates import Coordinate, points, setting, without
from iclab.studies.outliers.error.pairs import Term, combination
from iclab.studies.outliers.learners import Trained, learners_of
from iclab.studies.outliers.names import ALPHA

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

PLACEMENTS = ("farthest", "random", "closest")
QUOTED = {
    "gated": (99.73, 99.67, 82.73),
    "linear": (93.68, 94.12, 93.96),
    "softmax": (99.40, 99.26, 99.28),
}
"""Published accuracies in per cent by `PLACEMENTS`: three layers, p_a = 0.4, alpha = 0.5.

We take them to be for random labels, under which alone linear attention comes near its accuracies at alpha = 0.5.
"""

_MOST_POINTS = 9
"""Up to so many grid points a mitigation has a sentence for each."""

_PUBLISHED_ALPHA, _PUBLISHED_FRACTION = 0.5, 0.4


def quoted_accuracy(learner: Trained, point: GridPoint, placement: str) -> float | None:
    """The published accuracy in per cent, where there is one for this setting."""
    if not _published(point, learner):
        return None
    return QUOTED[learner.section.kind][PLACEMENTS.index(placement)]


def _published(point: GridPoint, learner: Trained) -> bool:
    """Whether the published table is of this setting, as far as we know it."""
    tested = setting(point, ALPHA) == _PUBLISHED_ALPHA and setting(point, "label_rule") == "random"
    return learner.section.depth == 3 and tested and is_published(point, learner, _PUBLISHED_FRACTION)


def placement_table(results: Results, errors: pd.DataFrame, coords: Sequence[Coordinate]) -> list[Table]:
    """Accuracy by placement beside the published numbers."""
    rows: list[list[str | float | int | None]] = []
    for point in points(results, errors, without(coords, ["placement"])):
        for learner in learners_of(point.config):
            mine = point.rows[point.rows["learner"] == learner.name]
            for placement in PLACEMENTS:
                for _, row in mine[mine["placement"] == placement].iterrows():
                    quoted = quoted_accuracy(learner, point, placement)
                    rows.append([point.title, learner.name, placement, accuracy(row), quoted, basis(row)])
    caption = (
        "Accuracy in per cent by where the outliers stand, with its interval. The published numbers are quoted from "
        "arXiv 2510.00399 (three layers, p_a = 0.4, alpha = 0.5); we know neither the wiring of its three layers nor "
        "the kappa_a' of its table, and take it to be for random labels, under which alone linear attention comes near "
        "it."
    )
    columns = ["test distribution", "learner", "outliers", "accuracy, %", "published, %", "rests on"]
    return [Table("placement", caption, columns, rows)] if rows else []


def accuracy(row: pd.Series) -> str:
    """``98.1 (97.2 to 98.9)``, in per cent, from a row of errors."""
    import math

    value, low, high = (100 * (1 - float(row[key])) for key in ("value", "high", "low"))
    return f"{value:.2f}" if not math.isfinite(low) else f"{value:.2f} ({low:.2f} to {high:.2f})"


def placement_claims(results: Results, point: GridPoint) -> list[ClaimResult]:
    """Judge whether placing the outliers next to the query costs Mamba ten points, and the others nothing."""
    found = []
    for learner in learners_of(point.config):
        gaps = {placement: _gap(results, point, learner.name, placement) for placement in ("closest", "farthest")}
        estimates = {
            placement: Estimate.of(
                gap, 100, label=f"{placement} to the query" if placement == "closest" else f"{placement} from it"
            )
            for placement, gap in gaps.items()
            if gap is not None
        }
        if not theorem_covers(point, learner) or "closest" not in estimates:
            continue
        gated = learner.section.kind == "gated"
        far = gaps["farthest"]
        loss = final_loss_text(training_rows(results, point, learner), learner.name)
        found.append(
            judge(
                COLLAPSE if gated else NO_COLLAPSE,
                estimates["closest"] if gated else list(estimates.values()),
                subject=learner.name,
                at=point.title,
                settings=point.key,
                unmet=PUBLISHED if not _published(point, learner) else LEARNED if loss else "",
                remarks=[
                    f"Outliers farthest from it cost {difference(far, 100)} points." if gated and far else "",
                    loss,
                ],
            )
        )
    return found


def claimed_alpha(coords: Sequence[Coordinate]) -> float | None:
    """The measured alpha that is nearest to the published table's, at which placements are compared; ``None`` where it
    is not varied."""
    alphas = [float(alpha) for coord in coords if coord.column == ALPHA for alpha in coord.values]
    return min(alphas, key=lambda alpha: abs(alpha - _PUBLISHED_ALPHA), default=None)


def _gap(results: Results, point: GridPoint, learner: str, placement: str = "closest") -> Difference | None:
    """Error with the outliers at ``placement`` less that with them at random positions."""
    return combination(results, [_term(1, learner, point, placement), _term(-1, learner, point, "random")])


def _term(weight: float, learner: str, point: GridPoint, placement: str) -> Term:
    return Term(weight, learner, {**point.key, "placement": placement})


def mitigation_notes(results: Results, found: Sequence[GridPoint]) -> list[str]:
    """Compare learners that were trained otherwise, on another distribution or with other steps, with the first of the
    same model that was trained on the common one. This is no claim of the paper.

    Args:
        results: of the run.
        found: the grid points.
    """
    notes: dict[str, list[tuple[str, str]]] = {}
    for point in found:
        learners = learners_of(point.config)
        for learner in learners:
            same = [other for other in learners if _model(other) == _model(learner) and not other.changed]
            if same and same[0].name != learner.name:
                notes.setdefault(learner.name, []).extend(_mitigation(results, point, same[0], learner))
    shown = []
    for name, answers in notes.items():
        if len(answers) <= _MOST_POINTS:
            shown.extend(text for _, text in answers)
            continue
        counts = {answer: sum(a == answer for a, _ in answers) for answer in dict.fromkeys(a for a, _ in answers)}
        told = "; ".join(f"{answer} at {count}" for answer, count in counts.items())
        shown.append(f"Does '{name}' win back more than half of the collapse? Of {len(answers)} grid points: {told}.")
    return shown


def _model(learner: Trained) -> tuple[str, int]:
    return learner.section.kind, learner.section.depth


def _mitigation(results: Results, point: GridPoint, usual: Trained, learner: Trained) -> list[tuple[str, str]]:
    """Whether more than half of the collapse is won back, in a word, and the sentence; nothing where there is none."""
    collapse = _gap(results, point, usual.name)
    half = combination(
        results,
        [
            _term(1, learner.name, point, "closest"),
            _term(-0.5, usual.name, point, "closest"),
            _term(-0.5, usual.name, point, "random"),
        ],
    )
    changes = {
        placement: combination(
            results, [_term(-1, learner.name, point, placement), _term(1, usual.name, point, placement)]
        )
        for placement in PLACEMENTS
    }
    if collapse is None or half is None or not collapse.low > 0:
        return []
    answer = "fewer than 5 seeds leave it open"
    if half.interval == "bootstrap":
        answer = "yes" if half.high < 0 else "no" if half.low > 0 else "undecided"
    losses = [final_loss_text(training_rows(results, point, each), each.name) for each in (usual, learner)]
    if any(losses):
        answer = "a training did not learn"
    won = changes["closest"]
    share = number(100 * won.value / collapse.value) if won is not None else "an unknown part"
    gains = "; ".join(f"{name} {difference(change, 100)}" for name, change in changes.items() if change is not None)
    text = (
        f"{point.prefix}does the training of '{learner.name}' undo the collapse of '{usual.name}'? Outliers closest to "
        f"the query cost the latter {difference(collapse, 100)} points against random positions, of which the former "
        f"wins back {share} %. More than half: {answer}. Its gain in accuracy by placement, in points: {gains} "
        f"({basis_of_each([half])}, paired). This is no claim of the paper."
    )
    return [(answer, " ".join(part for part in (text, *losses) if part))]
