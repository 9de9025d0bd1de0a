"""Which settings the theorems, the figure and the table of arXiv 2510.00399 are about, and which trainings count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from iclab.claims.li2025 import MOST_LOSS
from iclab.experiments.sections.outliers import PAPER_COEFFICIENTS, AttentionLearner
from iclab.results.grid_points import GridPoint
from iclab.results.wording import number
from iclab.studies.outliers.error.coordinates import setting
from iclab.studies.outliers.learners import Trained
from iclab.studies.outliers.names import ALPHA, TRAINING_LOSS

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

_SIZES = {"ambient_dim": 30, "relevant": 6, "irrelevant": 10, "outliers": 3, "norm": 3.0, "outlier_size": 2.0}
_LENGTH = 20
_TRAINING = {
    "label_rule": "random",
    "coefficients": None,
    "orthogonal": 0.0,
    "placement": "random",
    "sampling": "iid",
    "input_noise": 0.0,
}


def training_covered(prompts: Mapping[str, Any], learner: AttentionLearner) -> bool:
    """Return whether the theorems are about this training: independent outliers of some size at random positions with
    random labels, balanced tasks, K at most 1/2, no noise on inputs, and a start of at most 0.2."""
    return (
        all(prompts[key] == value for key, value in _TRAINING.items())
        and prompts["irrelevant_range"] <= 0.5
        and prompts["outlier_size"] > 0
        and not isinstance(prompts["tasks"], list)
        and (learner.start or 0.2) <= 0.2
        and not learner.prompts.model_dump(exclude_none=True)
    )


def theorem_covers(point: GridPoint, learner: Trained) -> bool:
    """Return whether the theorems are about the training of this learner and the inputs of this test distribution, on
    which there is no noise, and outliers of some size."""
    tested = not setting(point, "input_noise") and setting(point, "outlier_size") != 0
    return tested and training_covered(point.config["prompts"], learner.section)


def outliers_covered(point: GridPoint) -> bool:
    """Return whether every test outlier has a positive sum of coefficients, as the theorem asks."""
    coefficients = _coefficients(point)
    return coefficients is None or all(sum(row) > 0 for row in coefficients)


def is_published(point: GridPoint, learner: Trained, fraction: float) -> bool:
    """Return whether a published number is of this setting, as far as it is printed: sizes, lengths, training
    distribution with p_a = ``fraction``, one step size for all weights, K' above 1, and test outliers. Not printed are
    kappa_a', the value of K', the step size and the wiring of several layers."""
    prompts = point.config["prompts"]
    lengths = {setting(point, "num_examples"), learner.section.training.num_examples}
    steps = learner.section.training
    named = point.config["axes"]["outlier_vectors"]
    vectors = (named or {}).get(setting(point, "outlier_vectors"), {}) if named else point.config["test"]
    return (
        theorem_covers(point, learner)
        and all(prompts[key] == value for key, value in _SIZES.items())
        and prompts["outlier_norm"] in (None, prompts["norm"])
        and learner.fraction == fraction
        and lengths == {_LENGTH}
        and (learner.section.kind != "gated" or steps.gate_learning_rate == steps.learning_rate)
        and (setting(point, "irrelevant_range") or 0) > 1
        and not vectors.get("orthogonal")
        and _coefficients(point) == PAPER_COEFFICIENTS
    )


def training_rows(results: Results | None, point: GridPoint, learner: Trained) -> pd.DataFrame | None:
    """Return the losses of the training of ``learner`` at this grid point; ``None`` without results."""
    if results is None:
        return None
    table = results.summary
    rows = table[(table["metric"] == TRAINING_LOSS) & (table["learner"] == learner.name)]
    for column, value in point.key.items():
        if column != ALPHA and column in rows and rows[column].notna().any():
            rows = rows[rows[column].isna() if value is None else rows[column] == value]
    return rows


def final_loss_text(rows: pd.DataFrame | None, learner: str) -> str:
    """Return a sentence where a training ended above `MOST_LOSS`, so that its model is no evidence about a claim;
    empty where it did not, or where no loss was recorded.

    Args:
        rows: of one grid point. Where losses were recorded over training, the last one counts.
        learner: whose training.
    """
    if rows is None:
        return ""
    losses = rows[(rows["metric"] == TRAINING_LOSS) & (rows["learner"] == learner)]
    if losses.empty:
        return ""
    if "step" in losses:
        losses = losses.sort_values("step")
    loss = float(losses["value"].iloc[-1])
    return f"The last window of its training has a mean loss of {number(loss)}." if loss > MOST_LOSS else ""


def _coefficients(point: GridPoint) -> list[list[float]] | None:
    named: dict[str, Any] | None = point.config["axes"]["outlier_vectors"]
    if not named:
        return point.config["test"]["coefficients"]
    chosen = setting(point, "outlier_vectors")
    return named[chosen]["coefficients"] if chosen in named else [[0.0]]
