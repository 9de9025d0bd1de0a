"""Which settings the theorems, the figure and the table of arXiv 2510.00399 are about, and which trainings count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iclab.experiments.outlier_learners import Trained
from iclab.experiments.outlier_names import ALPHA, TRAINING_LOSS
from iclab.experiments.outlier_places import setting
from iclab.experiments.outlier_sections import PAPER_COEFFICIENTS
from iclab.experiments.outlier_training_learned import unlearned
from iclab.experiments.places import Place

if TYPE_CHECKING:
    from iclab.runs.results import Results

_SIZES = {"ambient_dim": 30, "relevant": 6, "irrelevant": 10, "outliers": 3, "norm": 3.0, "outlier_size": 2.0}
_LENGTH = 20
_LAW = {
    "label_rule": "random",
    "coefficients": None,
    "orthogonal": 0.0,
    "placement": "random",
    "sampling": "iid",
    "input_noise": 0.0,
}


def theorem_covers(place: Place, learner: Trained) -> bool:
    """Whether the theorems are about the training law of this learner and the inputs of this test law: independent
    outliers at random places with random labels in training, K at most 1/2, and no noise on inputs."""
    prompts = place.config["prompts"]
    trained = all(prompts[key] == value for key, value in _LAW.items()) and prompts["irrelevant_range"] <= 0.5
    return trained and not learner.changed and not setting(place, "input_noise")


def outliers_covered(place: Place) -> bool:
    """Whether every test outlier has a positive sum of coefficients, as the theorem asks."""
    coefficients = _coefficients(place)
    return coefficients is None or all(sum(row) > 0 for row in coefficients)


def is_published(place: Place, learner: Trained, fraction: float) -> bool:
    """Whether a published number is of this setting, as far as it is printed: sizes, lengths, training law with p_a =
    ``fraction``, and test outliers. Not told are kappa_a', K', step sizes and the wiring of several layers."""
    prompts = place.config["prompts"]
    lengths = {setting(place, "num_examples"), learner.section.training.num_examples}
    tested = setting(place, "orthogonal") if not place.config["axes"]["outlier_vectors"] else 0.0
    return (
        theorem_covers(place, learner)
        and all(prompts[key] == value for key, value in _SIZES.items())
        and prompts["outlier_norm"] in (None, prompts["norm"])
        and learner.fraction == fraction
        and lengths == {_LENGTH}
        and not tested
        and _coefficients(place) == PAPER_COEFFICIENTS
    )


def not_learned(results: Results | None, place: Place, learner: Trained) -> str:
    """A sentence where the training of ``learner`` at this place reached no small loss; empty where it did."""
    if results is None:
        return ""
    table = results.summary
    rows = table[(table["metric"] == TRAINING_LOSS) & (table["learner"] == learner.name)]
    for column, value in place.key.items():
        if column != ALPHA and column in rows and rows[column].notna().any():
            rows = rows[rows[column] == value]
    reason = unlearned(rows, learner.name)
    return f" {reason}" if reason else ""


def _coefficients(place: Place) -> list[list[float]] | None:
    named: dict[str, Any] | None = place.config["axes"]["outlier_vectors"]
    if not named:
        return place.config["test"]["coefficients"]
    chosen = setting(place, "outlier_vectors")
    if chosen not in named:
        return [[0.0]]
    return [[0.0]] if named[chosen]["orthogonal"] else named[chosen]["coefficients"]
