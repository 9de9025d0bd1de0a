"""How large the deep models of a run are, counted from the tensors of models built as the configuration says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iclab.experiments.sections.deep import DeepLearner
from iclab.results.grid_points import GridPoint
from iclab.results.page import Table
from iclab.studies.error.config import ErrorConfig

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
    typed = ErrorConfig.model_validate(config)
    deep = {key: section for key, section in typed.learners.items() if isinstance(section, DeepLearner)}
    dim, lengths = typed.setting.dimension if deep else 0, typed.num_examples
    return [[typed.names[key], *_counts(section, dim, lengths)] for key, section in deep.items()]


def _counts(learner: DeepLearner, input_dim: int, lengths: list[int]) -> tuple[str, str]:
    """Of all three backbones the state grows by as many numbers with each example, which may be none."""
    from iclab.prompts import Stream

    model = learner.build(input_dim, lengths, Stream(0))
    empty = model.state_size(0)
    growth = model.state_size(1) - empty
    terms = [f"{empty:,}"] * (empty > 0 or growth == 0) + [f"{growth:,} n"] * (growth > 0)
    return f"{model.num_parameters():,}", " + ".join(terms)
