"""How large the deep models of a run are, counted from the tensors of models built as the configuration says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from iclab.results.grid_points import GridPoint
from iclab.results.page import Table

if TYPE_CHECKING:
    from iclab.experiments.sections.deep import DeepLearner

_CAPTION = (
    "Numbers in all parameters of each deep model, and numbers that it carries of a prompt after n examples. Counted "
    "from the tensors of a model built as configured; a learned position of every token that a test prompt may have is "
    "among the parameters."
)


def sizes(points: Sequence[GridPoint]) -> list[Table]:
    """A row for each deep model and grid point; no table where there is none."""
    rows = [[point.title, *row] for point in points for row in _rows(point.config)]
    columns = ["prompts", "learner", "parameters", "state after n examples"]
    return [Table("sizes", _CAPTION, columns, rows)] if rows else []


def _rows(config: dict[str, Any]) -> list[list[str]]:
    from iclab.experiments.sections.deep import DeepLearner

    deep = {name: section for name, section in config["learners"].items() if section["kind"] == "deep"}
    learners = {section["label"] or name: DeepLearner.model_validate(section) for name, section in deep.items()}
    dim, lengths = config["prompts"]["ambient_dim"], config["num_examples"]
    return [[name, *_counts(learner, dim, lengths)] for name, learner in learners.items()]


def _counts(learner: DeepLearner, input_dim: int, lengths: list[int]) -> tuple[str, str]:
    """Of all three backbones the state grows by as many numbers with each example, which may be none."""
    from iclab.prompts import Stream

    model = learner.build(input_dim, lengths, Stream(0))
    empty = model.state_size(0)
    growth = model.state_size(1) - empty
    terms = [f"{empty:,}"] * (empty > 0 or growth == 0) + [f"{growth:,} n"] * (growth > 0)
    return f"{model.num_parameters():,}", " + ".join(terms)
