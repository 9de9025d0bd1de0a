"""`ExperimentKind`: what a family of experiments is made of. A new kind is one file with one such object."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from iclab.evaluation.measurement import Measurement
    from iclab.experiments.reading import Reading
    from iclab.runs.results import Results


class Config(BaseModel):
    """Base of all configuration sections: immutable, unknown keys refused, numbers coerced before hashing."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


@dataclass(frozen=True)
class ExperimentKind:
    """A family of experiments.

    Attributes:
        config: the `Config` of one cell. It has a field ``seed``; everything in it is science and is hashed.
        run_cell: measures one cell. A function of the config alone.
        seconds: rough CPU seconds that one cell takes on one core of a laptop; see `forecast`.
        read: turns the results of all cells into figures, tables and findings.
        gpu_seconds: rough seconds of a cell's trainings on one GPU, zero for a cell without any.
        check: raises `InputError` for configs that the types allow but the mathematics does not (``r > d``).
    """

    config: type[Config]
    run_cell: Callable[[Any], Sequence[Measurement]]
    seconds: Callable[[Any], float]
    read: Callable[[Results], Reading]
    check: Callable[[Any], None] = lambda _: None
    gpu_seconds: Callable[[Any], float] = lambda _: 0.0

    def forecast(self, config: Config) -> float | None:
        """Rough CPU seconds of a cell; ``None`` where ``seconds`` fails or gives no finite number >= 0.

        A forecast is a service: without one a run is as good.
        """
        try:
            seconds = float(self.seconds(config))
        except Exception:  # `seconds` may be a user's own and raise anything
            return None
        return seconds if 0 <= seconds < math.inf else None


def learner_names(config: Config) -> dict[str, str]:
    """What tables and figures call each learner of a configuration, by its key in ``learners``: the name that its
    section has, its label, or the key."""
    learners = getattr(config, "learners", {})
    return {
        key: getattr(section, "name", "") or getattr(section, "label", "") or key for key, section in learners.items()
    }


def total_forecast(kind: ExperimentKind, configs: Iterable[Config]) -> float | None:
    """Rough CPU seconds of some cells; ``None`` where that of one is not known."""
    total = 0.0
    for config in configs:
        seconds = kind.forecast(config)
        if seconds is None:
            return None
        total += seconds
    return total
