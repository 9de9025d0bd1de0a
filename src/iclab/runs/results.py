"""Load the results of a run folder."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

from iclab.config.validation import validate
from iclab.errors import InputError
from iclab.experiments.kind import learner_names
from iclab.experiments.registry import load_kind
from iclab.results.results import Results
from iclab.results.tables import per_seed_table, summary_table
from iclab.runs.folder import RunFolder
from iclab.runs.storage import read_cell


def load_results(folder: Path | str, experiment: dict[str, Any] | None = None) -> Results:
    """Load the results of the finished cells of a run folder.

    Args:
        folder: the run folder.
        experiment: the run, as `Resolved.to_json` describes it; by default what ``config.json`` says.

    Raises:
        InputError: if it is no run folder, has no finished cell, or a cell was changed.
    """
    run = RunFolder(Path(folder))
    experiment = experiment or run.read_config()
    cells = [read_cell(run.cell(cell)) for cell in run.finished(experiment)]
    if not cells:
        raise InputError(f"{folder} has no finished cell; run the experiment first")
    per_seed, samples = per_seed_table(experiment, cells)
    environment = run.read_environment()
    environment.pop("previous", None)
    names = cache(partial(learners_by_key, experiment, environment.get("kind_folder")))
    return Results(experiment, environment, per_seed, summary_table(per_seed, samples), tuple(samples), names)


def learners_by_key(experiment: dict[str, Any], kind_folder: str | None = None) -> list[dict[str, str]]:
    """Return, for each cell, what the tables call the learner of each key of the configuration."""
    model = load_kind(experiment["kind"], Path(kind_folder) if kind_folder else None).config
    return [learner_names(validate(model, cell["config"])) for cell in experiment["cells"]]
