"""Where the outliers stand: the placement table of arXiv 2510.00399, its claims, and what other training laws mend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iclab.experiments.outlier_claims import Judged
from iclab.experiments.outlier_conditions import is_published, not_learned, theorem_covers
from iclab.experiments.outlier_learners import Trained, learners_of
from iclab.experiments.outlier_names import ALPHA
from iclab.experiments.outlier_pairs import Combination, Term, combination
from iclab.experiments.outlier_places import Coordinate, places, setting, without
from iclab.experiments.places import Place
from iclab.experiments.reading import Finding, Table, Verdict
from iclab.experiments.series import basis, number, plural

if TYPE_CHECKING:
    import pandas as pd

    from iclab.runs.results import Results

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


def quoted_accuracy(learner: Trained, place: Place, placement: str) -> float | None:
    """The published accuracy in per cent, where there is one for this setting."""
    tested = setting(place, ALPHA) == _PUBLISHED_ALPHA and setting(place, "label_rule") == "random"
    if learner.section.depth != 3 or not tested or not is_published(place, learner, _PUBLISHED_FRACTION):
        return None
    return QUOTED[learner.section.kind][PLACEMENTS.index(placement)]


def placement_table(results: Results, errors: pd.DataFrame, coords: Sequence[Coordinate]) -> list[Table]:
    """Accuracy by placement beside the published numbers."""
    rows: list[list[str | float | int | None]] = []
    for place in places(results, errors, without(coords, ["placement"])):
        for learner in learners_of(place.config):
            mine = place.rows[place.rows["learner"] == learner.name]
            for placement in PLACEMENTS:
                for _, row in mine[mine["placement"] == placement].iterrows():
                    quoted = quoted_accuracy(learner, place, placement)
                    rows.append([place.title, learner.name, placement, accuracy(row), quoted, basis(row)])
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


def placement_claims(results: Results, place: Place) -> list[Judged]:
    """Does placing the outliers next to the query cost Mamba ten points, and the others nothing?"""
    found = []
    for learner in learners_of(place.config):
        gap = _gap(results, place, learner.name) if theorem_covers(place, learner) else None
        if gap is not None:
            found.append(_placement(place, learner, gap).unless(not_learned(results, place, learner)))
    return found


def claimed_alpha(coords: Sequence[Coordinate]) -> float | None:
    """The measured alpha that is nearest to the published table's; ``None`` where it is not varied."""
    alphas = [float(alpha) for coord in coords if coord.column == ALPHA for alpha in coord.values]
    return min(alphas, key=lambda alpha: abs(alpha - _PUBLISHED_ALPHA), default=None)


def _gap(results: Results, place: Place, learner: str) -> Combination | None:
    """Error with the outliers closest to the query less that with them at random places."""
    return combination(results, [_term(1, learner, place, "closest"), _term(-1, learner, place, "random")])


def _term(weight: float, learner: str, place: Place, placement: str) -> Term:
    return Term(weight, learner, {**place.key, "placement": placement})


def _placement(place: Place, learner: Trained, gap: Combination) -> Judged:
    told = f"against random places they cost {learner.name} {gap.told(100)} points ({_basis(gap)}, paired)"
    if learner.section.kind == "gated":
        claim, verdict = f"claim 'outliers closest to the query cost {_POINTS} points'", _above(gap, _COLLAPSE)
    else:
        claim = "claim 'without gates the placement of outliers makes no difference' (less than 1 point)"
        verdict = _within(gap, _SAME)
    text = f"{place.prefix}{claim}: {told}."
    return Judged(f"{learner.name}, {claim}", place.title, Finding(text, verdict))


def mitigation_claims(results: Results, place: Place) -> list[Judged]:
    """Learners that were trained otherwise, under another law or with other steps, against the first of the same model
    that was trained under the common law."""
    found = []
    learners = learners_of(place.config)
    for learner in learners:
        same = [other for other in learners if _model(other) == _model(learner) and not other.changed]
        if same and same[0].name != learner.name:
            found.extend(_mitigation(results, place, same[0], learner))
    return found


def _model(learner: Trained) -> tuple[str, int]:
    return learner.section.kind, learner.section.depth


def _mitigation(results: Results, place: Place, usual: Trained, learner: Trained) -> list[Judged]:
    collapse = _gap(results, place, usual.name)
    half = combination(
        results,
        [
            _term(1, learner.name, place, "closest"),
            _term(-0.5, usual.name, place, "closest"),
            _term(-0.5, usual.name, place, "random"),
        ],
    )
    changes = {
        placement: combination(
            results, [_term(-1, learner.name, place, placement), _term(1, usual.name, place, placement)]
        )
        for placement in PLACEMENTS
    }
    if collapse is None or half is None or not collapse.low > 0:
        return []  # nothing to mend
    told = "; ".join(f"{name} {change.told(100)}" for name, change in changes.items() if change is not None)
    verdict: Verdict = "undecided"
    if not half.judged:
        verdict = "information"
    elif half.high < 0 or half.low > 0:
        verdict = "agrees" if half.high < 0 else "disagrees"
    mended = changes["closest"]
    share = number(100 * mended.value / collapse.value) if mended is not None else "an unknown part"
    text = (
        f"{place.prefix}does the training of '{learner.name}' mend the collapse of '{usual.name}'? Outliers "
        f"closest to the query cost the latter {collapse.told(100)} points against random places, of which the former "
        f"wins back {share} %. Its gain in accuracy by placement, in points: {told} ({_basis(half)}, paired). The "
        "verdict is whether more than half is won back; it is no claim of the paper."
    )
    claim = Judged(f"'{learner.name}' mends more than half of the collapse", place.title, Finding(text, verdict))
    return [claim.unless(not_learned(results, place, usual) or not_learned(results, place, learner))]


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
