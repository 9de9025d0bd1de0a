"""A training as ``torchrun`` starts it: ``train_worker.py FOLDER STOP_AT``, with other initial weights in each process.

Stopped in the middle of step ``STOP_AT`` in every process, and resumed.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from torch import Tensor

from iclab.prompts import Prompts
from train_support import EVERYTHING, Correlation, build, run, weights


class StopHere(Exception):
    """Ends a training in the middle of a step."""


def stopping(model: Correlation, stop_at: int) -> Correlation:
    """The model, made to stop at that pass through it."""
    whole, passes = model.prefixes, []

    def prefixes(prompts: Prompts) -> Tensor:
        passes.append(prompts)
        if len(passes) == stop_at:
            raise StopHere
        return whole(prompts)

    model.prefixes = prefixes  # type: ignore[method-assign]
    return model


def main(folder: Path, stop_at: int) -> None:
    rank = int(os.environ["RANK"])
    with suppress(StopHere):
        run(stopping(build(rank), stop_at), folder=folder / "training", **EVERYTHING)
    model, record = run(build(rank + 2), folder=folder / "training", **EVERYTHING)
    result = {
        "weights": weights(model).tolist(),
        "losses": [line["loss"] for line in record.metrics],
        "evaluation": [line["evaluation"]["loss"] for line in record.metrics if "evaluation" in line],
        "processes": record.processes,
        "resumed_from": record.resumed_from,
        "checkpoint": record.checkpoint is not None,
    }
    (folder / f"{rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
