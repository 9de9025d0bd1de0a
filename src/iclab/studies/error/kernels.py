"""What kernel ridge was tuned to, as a table and as notes of the report."""

from __future__ import annotations

from collections.abc import Sequence

from iclab.experiments.sections.estimators import BANDWIDTH, PENALTY, KernelRidgeLearner
from iclab.results.grid_points import GridPoint
from iclab.results.page import Table
from iclab.results.wording import number, plural


def tuning_table(points: Sequence[GridPoint]) -> list[Table]:
    """At each grid point, for each kernel and tuned length: the choices of the seeds. ``points`` hold all metrics."""
    rows = []
    for point in points:
        chosen = point.rows[point.rows["metric"].isin([BANDWIDTH, PENALTY])]
        for (learner, length), group in chosen.groupby(["learner", "num_examples"], sort=False):
            by_metric = {metric: rows["seed_values"].iloc[0] for metric, rows in group.groupby("metric")}
            choices = [_choices(by_metric.get(metric, [])) for metric in (BANDWIDTH, PENALTY)]
            source = tuning_source(point.config, str(learner))
            rows.append([point.title, str(learner), int(length), *choices, source])
    if not rows:
        return []
    caption = (
        "Bandwidth and penalty of kernel ridge, chosen for each seed by the squared error on prompts of their own "
        "stream, never on those reported. A context of another length uses the choice of the nearest in ratio."
    )
    return [Table("tuning", caption, ["prompts", "learner", "tuned at N", "bandwidth", "penalty", "tuned on"], rows)]


def kernel_notes(config: dict) -> list[str]:
    """How each kernel was tuned."""
    return [f"{label} was {tuning_source(config, label)}." for label in _kernels(config)]


def kernel_stops(config: dict) -> list[str]:
    """Why the curve of a kernel ends before the others, where it does."""
    lengths = config["num_examples"]
    stops = []
    for label, section in _kernels(config).items():
        reach = max((n for n in lengths if n <= section["max_examples"]), default=0)
        if reach < max(lengths):
            stops.append(
                f"{label} stops at N = {reach}: a prompt costs N^3 operations, and max_examples is "
                f"{section['max_examples']}."
            )
    return stops


def tuning_source(config: dict, label: str) -> str:
    """``tuned on 32 separate prompts of each seed at N = 64, 256``."""
    section = _kernels(config)[label]
    sizes = KernelRidgeLearner.model_validate(section).tuning_lengths(config["num_examples"])
    prompts = plural(section["tune_prompts"], "separate prompt")
    return f"tuned on {prompts} of each seed at N = {', '.join(map(str, sizes))}"


def _kernels(config: dict) -> dict[str, dict]:
    """The sections of kernel ridge by their labels."""
    return {s["label"] or name: s for name, s in config["learners"].items() if s["kind"] == "kernel_ridge"}


def _choices(values: Sequence[float]) -> str:
    """``2`` where all seeds chose alike, else ``2 (3 seeds), 4 (2 seeds)``."""
    counts = {value: list(values).count(value) for value in sorted(set(values))}
    if len(counts) == 1:
        return number(next(iter(counts)))
    return ", ".join(f"{number(value)} ({plural(count, 'seed')})" for value, count in counts.items())
