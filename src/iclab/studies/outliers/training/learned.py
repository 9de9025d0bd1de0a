"""Whether a training got far enough for its model to be evidence about a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iclab.results.wording import number
from iclab.studies.outliers.names import TRAINING_LOSS

if TYPE_CHECKING:
    import pandas as pd

MOST_LOSS = 0.15
"""Mean over seeds of the hinge loss of the last window of training, above which a model has not learned. A model whose
output is zero has 1; trained linear Transformers have 0.09 where more than half of the examples have random labels, and
0.12 with noise on the inputs too; trained gates have less than 0.02."""


def unlearned(rows: pd.DataFrame, learner: str) -> str:
    """A sentence where a training ended above `MOST_LOSS`; empty where it did not, or where no loss was recorded.

    ``rows`` are those of one place. Where losses were recorded over training, the last one counts.
    """
    losses = rows[(rows["metric"] == TRAINING_LOSS) & (rows["learner"] == learner)]
    if losses.empty:
        return ""
    if "step" in losses:
        losses = losses.sort_values("step")
    loss = float(losses["value"].iloc[-1])
    if loss <= MOST_LOSS:
        return ""
    return (
        f"The last window of its training has a mean loss of {number(loss)}, above {MOST_LOSS:g}, so it is no "
        "evidence: no verdict."
    )
