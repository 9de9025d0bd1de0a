"""Where the outliers stand: the placement table of arXiv 2510.00399, its claims, and what other training laws mend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iclab.results.grid_points import GridPoint
from iclab.results.page import Finding, Table, Verdict
from iclab.results.wording import basis, number, plural
from iclab.studies.outliers.error.claims import Judged
from iclab.studies.outliers.error.conditions import is_published, not_learned, theorem_covers
from iclab.studies.outliers.error.coordinates import Coordinate, points, setting, without
from iclab.studies.outliers.error.pairs import Combination, Term, combination
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

_COLLAPSE, _SAME = 0.10, 0.01
_POINTS = "Mamba at least 10"
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
    columns = ["test law", "learner", "outliers", "accuracy, %", "published, %", "rests on"]
    return [Table("placement", caption, columns, rows)] if rows else []


def accuracy(row: pd.Series) -> str:
    """``98.1 (97.2 to 98.9)``, in per cent, from a row of errors."""
    import math

    value, low, high = (100 * (1 - float(row[key])) for key in ("value", "high", "low"))
    return f"{value:.2f}" if not math.isfinite(low) else f"{value:.2f} ({low:.2f} to {high:.2f})"


def placement_claims(results: Results, point: GridPoint) -> list[Judged]:
    """Does placing the outliers next to the query cost Mamba ten points, and the others nothing?"""
    found = []
    for learner in learners_of(point.config):
        closest, farthest = (_gap(results, point, learner.name, placement) for placement in ("closest", "farthest"))
        if theorem_covers(point, learner) and closest is not None:
            claim = _placement(point, learner, closest, farthest)
            claim = claim if _published(point, learner) else claim.unless(" Not the published setting: no verdict.")
            found.append(claim.unless(not_learned(results, point, learner)))
    return found


def claimed_alpha(coords: Sequence[Coordinate]) -> float | None:
    """The measured alpha that is nearest to the published table's, at which placements are compared; ``None`` where it
    is not varied."""
    alphas = [float(alpha) for coord in coords if coord.column == ALPHA for alpha in coord.values]
    return min(alphas, key=lambda alpha: abs(alpha - _PUBLISHED_ALPHA), default=None)


def _gap(results: Results, point: GridPoint, learner: str, placement: str = "closest") -> Combination | None:
    """Error with the outliers at ``placement`` less that with them at random places."""
    return combination(results, [_term(1, learner, point, placement), _term(-1, learner, point, "random")])


def _term(weight: float, learner: str, point: GridPoint, placement: str) -> Term:
    return Term(weight, learner, {**point.key, "placement": placement})


def _placement(point: GridPoint, learner: Trained, gap: Combination, far: Combination | None) -> Judged:
    """``gap`` and ``far``: the closest and the farthest places less random ones."""
    farthest = f", and those farthest from it {far.told(100)}" if far is not None else ""
    told = f"against random places they cost {learner.name} {gap.told(100)} points{farthest} ({_basis(gap)}, paired)"
    if learner.section.kind == "gated":
        claim, verdict = f"claim 'outliers closest to the query cost {_POINTS} points'", _above(gap, _COLLAPSE)
    else:
        claim = "claim 'without gates the placement of outliers makes no difference' (less than 1 point)"
        verdict = _all([_within(each, _SAME) for each in (gap, far) if each is not None])
    text = f"{point.prefix}{claim}: {told}."
    return Judged(f"{learner.name}, {claim}", point.title, Finding(text, verdict))


def mitigation_claims(results: Results, point: GridPoint) -> list[Judged]:
    """Learners that were trained otherwise, under another law or with other steps, against the first of the same model
    that was trained under the common law."""
    found = []
    learners = learners_of(point.config)
    for learner in learners:
        same = [other for other in learners if _model(other) == _model(learner) and not other.changed]
        if same and same[0].name != learner.name:
            found.extend(_mitigation(results, point, same[0], learner))
    return found


def _model(learner: Trained) -> tuple[str, int]:
    return learner.section.kind, learner.section.depth


def _mitigation(results: Results, point: GridPoint, usual: Trained, learner: Trained) -> list[Judged]:
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
        return []  # nothing to mend
    told = "; ".join(f"{name} {change.told(100)}" for name, change in changes.items() if change is not None)
    answer = "fewer than 5 seeds leave it open"
    if half.judged:
        answer = "yes" if half.high < 0 else "no" if half.low > 0 else "undecided"
    mended = changes["closest"]
    share = number(100 * mended.value / collapse.value) if mended is not None else "an unknown part"
    text = (
        f"{point.prefix}does the training of '{learner.name}' mend the collapse of '{usual.name}'? Outliers "
        f"closest to the query cost the latter {collapse.told(100)} points against random places, of which the former "
        f"wins back {share} %. More than half: {answer}. Its gain in accuracy by placement, in points: {told} "
        f"({_basis(half)}, paired). This is no claim of the paper."
    )
    claim = Judged(f"'{learner.name}' mends more than half of the collapse", point.title, Finding(text))
    return [claim.unless(not_learned(results, point, usual) or not_learned(results, point, learner))]


def _all(verdicts: Sequence[Verdict]) -> Verdict:
    """What several parts of a claim come to: one that fails refutes it."""
    worst: tuple[Verdict, ...] = ("disagrees", "information", "undecided")
    return next((verdict for verdict in worst if verdict in verdicts), "agrees")


def _above(gap: Combination, level: float) -> Verdict:
    if not gap.judged:
        return "information"
    if gap.low > level:
        return "agrees"
    return "disagrees" if gap.high < level else "undecided"


def _within(gap: Combination, level: float) -> Verdict:
    if not gap.judged:
        return "information"
    if max(-gap.low, gap.high) < level:
        return "agrees"
    return "disagrees" if gap.low > level or gap.high < -level else "undecided"


def _basis(gap: Combination) -> str:
    return f"{plural(gap.num_seeds, 'seed')}, {plural(gap.num_prompts, 'prompt')} each"
