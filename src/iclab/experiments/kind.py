"""`ExperimentKind`: what a family of experiments is made of. A new kind is one file with one such object."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from iclab.config.loading import load_object
from iclab.experiments.cost import Cost
from iclab.memory import recorded_sizes

if TYPE_CHECKING:
    from iclab.evaluation.measurement import Measurement
    from iclab.results.page import Report
    from iclab.results.results import Results


_LIBRARIES = 4e8  # bytes of a process that has loaded torch
_CELL_FILES = 5e4  # bytes of a cell beside its samples


class Config(BaseModel):
    """Base of all configuration sections: immutable, unknown keys refused, numbers coerced before hashing."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    def own_modules(self) -> frozenset[str]:
        """Return the names of the user's modules that the sections in here name; a section that names some says so."""
        return frozenset(module for _, value in self for module in _own_modules(value))


def _own_modules(value: object) -> frozenset[str]:
    if isinstance(value, Config):
        return value.own_modules()
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return frozenset(module for item in inner for module in _own_modules(item))


@dataclass(frozen=True)
class ExperimentKind:
    """A family of experiments.

    Attributes:
        config: the `Config` of one cell. It has a field ``seed``; everything in it is science and is hashed.
        run_cell: measures one cell. A function of the config alone.
        seconds: rough CPU seconds that one cell takes on one core of a laptop; see `forecast`.
        summary: turns the results of all cells into claims, notes, figures and tables; a function, or its name
            ``package.module:function``, which is imported when it is needed. What a name leads to is no part of `code`,
            so it can be changed without computing cells anew.
        gpu_seconds: rough seconds of a cell's trainings on one GPU, zero for a cell without any.
        memory: rough bytes of the largest tensors of a cell; ``None`` takes the largest size that ``check`` asks
            `iclab.memory.check_memory` about.
        disk: rough bytes of the samples and checkpoints of a cell, ``None`` where nobody knows.
        check: raises `InputError` for configs that the types allow but the mathematics does not (``r > d``).
    """

    config: type[Config]
    run_cell: Callable[[Any], Sequence[Measurement]]
    seconds: Callable[[Any], float]
    summary: Callable[[Results], Report] | str
    check: Callable[[Any], None] = lambda _: None
    gpu_seconds: Callable[[Any], float] = lambda _: 0.0
    memory: Callable[[Any], float] | None = None
    disk: Callable[[Any], float] | None = None

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that hold ``run_cell`` and ``config``."""
        function: Any = self.run_cell
        while isinstance(function, partial):
            function = function.func
        module = getattr(function, "__module__", None) or type(function).__module__
        return tuple(dict.fromkeys([module, self.config.__module__]))

    def code(self, config: Config) -> str | None:
        """Return a hash of the sources that the numbers of a cell come from.

        They are `modules`, those of a user's own families and learners in ``config``, and all that they import.
        """
        from iclab.code_version import code_version

        return code_version(*self.modules, *sorted(config.own_modules()))

    def summarise(self, results: Results) -> Report:
        """Return what the results of all cells say.

        Raises:
            InputError: if ``summary`` is a name that leads to no function.
        """
        function = self.summary
        return (load_object("summary", function) if isinstance(function, str) else function)(results)

    def forecast(self, config: Config) -> float | None:
        """Return the rough CPU seconds of a cell; ``None`` where ``seconds`` fails or gives no finite number >= 0."""
        return _estimate(self.seconds, config)

    def cost(self, config: Config) -> Cost:
        """Return the rough cost of a cell.

        Memory is that of the libraries and the largest tensors. Where ``memory`` is not given, ``check`` is asked,
        which may import the numeric libraries.
        """
        tensors = _estimate(self.memory or self._largest_checked, config)
        return Cost(
            self.forecast(config),
            _estimate(self.gpu_seconds, config) or 0.0,
            None if tensors is None else tensors + _LIBRARIES,
            self.disk_bytes(config),
        )

    def disk_bytes(self, config: Config) -> float | None:
        """Return the rough bytes that a cell leaves in the run folder; ``None`` where nobody knows."""
        samples = None if self.disk is None else _estimate(self.disk, config)
        return None if samples is None else samples + _CELL_FILES

    def _largest_checked(self, config: Config) -> float:
        with recorded_sizes() as sizes:
            self.check(config)
        return max(sizes, default=math.nan)


def learner_names(config: Config) -> dict[str, str]:
    """What tables and figures call each learner of a configuration, by its key in ``learners``: the name that its
    section has, its label, or the key."""
    learners = getattr(config, "learners", {})
    return {
        key: getattr(section, "name", "") or getattr(section, "label", "") or key for key, section in learners.items()
    }


def total_cost(kind: ExperimentKind, configs: Iterable[Config]) -> Cost:
    """Return the rough cost of some cells, computed one after another."""
    return sum((kind.cost(config) for config in configs), Cost(0.0, 0.0, 0.0, 0.0))


def total_forecast(kind: ExperimentKind, configs: Iterable[Config]) -> float | None:
    """Rough CPU seconds of some cells; ``None`` where that of one is not known."""
    total = 0.0
    for config in configs:
        seconds = kind.forecast(config)
        if seconds is None:
            return None
        total += seconds
    return total


def _estimate(function: Callable[[Any], float], config: Config) -> float | None:
    """A finite number >= 0; ``None`` where the function, which may be a user's own, gives none or raises anything."""
    try:
        number = float(function(config))
    except Exception:
        return None
    return number if 0 <= number < math.inf else None
