"""From a name and overrides to the cells of a run."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from iclab.errors import InputError
from iclab.experiments.catalogue import Definition, load_definition
from iclab.experiments.identity import SCHEMA_VERSION, canonical_json, cell_id, run_id
from iclab.experiments.kind import Config, ExperimentKind, total_forecast
from iclab.experiments.nearest import did_you_mean
from iclab.experiments.overrides import MAX_CELLS, Override, check_text, parse_overrides, parse_values
from iclab.experiments.registry import load_kind
from iclab.experiments.schema import assign, look_up
from iclab.experiments.validation import validate

DEFAULT_SCALE = "laptop"


@dataclass(frozen=True)
class Cell:
    """A point of the grid: the unit of work and of resume."""

    id: str
    config: Config

    def to_json(self) -> dict[str, Any]:
        """The configuration with all defaults, as JSON values."""
        return self.config.model_dump(mode="json")


@dataclass(frozen=True)
class Resolved:
    """An experiment that is ready to run.

    Attributes:
        definition: where it comes from.
        kind: what measures its cells.
        scale: the name of the scale in use.
        grid: the swept keys in order, each with its values.
        cells: their product.
        run_id: hash of the science: the experiment, its kind and its cells.
    """

    definition: Definition
    kind: ExperimentKind
    scale: str
    grid: dict[str, list[Any]]
    cells: tuple[Cell, ...]
    run_id: str

    @property
    def folder_name(self) -> str:
        """``<paper>-<name>-<scale>-<run id>``."""
        return f"{self.definition.name.replace('/', '-')}-{self.scale}-{self.run_id}"

    @property
    def seconds(self) -> float:
        """Rough CPU seconds of all cells on one core; NaN where the kind does not know."""
        seconds = total_forecast(self.kind, (cell.config for cell in self.cells))
        return math.nan if seconds is None else seconds

    @property
    def gpu_seconds(self) -> float:
        """Rough seconds of all trainings of deep models on one GPU; zero without any."""
        return sum(self.kind.gpu_seconds(cell.config) for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        """What ``config.json`` of a run folder holds; ``config`` is that of the first cell."""
        return {
            "schema_version": SCHEMA_VERSION,
            "experiment": self.definition.name,
            "title": self.definition.title,
            "question": self.definition.question,
            "source": self.definition.source,
            "scale": self.scale,
            "kind": self.definition.kind,
            "run_id": self.run_id,
            "config": self.cells[0].to_json(),
            "grid": self.grid,
            "cells": [{"id": cell.id, "config": cell.to_json()} for cell in self.cells],
        }


def resolve(name: str, arguments: Iterable[str] = (), *, check: bool = True) -> Resolved:
    """The cells of an experiment.

    Args:
        name: of the catalogue, or the path of a YAML file.
        arguments: ``key=value`` overrides, see `iclab.experiments.overrides`; ``scale=full`` picks the scale.
        check: ask the kind, too, whether the mathematics allows each cell. That may import the numeric libraries.

    Raises:
        InputError: for anything in them that does not exist or is not allowed.
    """
    overrides, scale_name = parse_overrides(arguments)
    check_text("the name", name)
    definition = load_definition(name)
    kind = load_kind(definition.kind, definition.folder)
    scale_name = scale_name or DEFAULT_SCALE
    if scale_name not in definition.scales:
        scales = ", ".join(definition.scales)
        suggestion = did_you_mean(scale_name, definition.scales)
        raise InputError(f"{definition.name} has no scale {scale_name!r}{suggestion}; expected scale= one of {scales}")
    scale = definition.scales[scale_name]
    preset_axes = [_preset_axis(key, values) for key, values in scale.grid.items()]
    axes = _axes(preset_axes, overrides)
    size = math.prod(len(axis.values) for axis in axes)
    if size > MAX_CELLS:
        raise InputError(f"the grid has {size} cells; expected at most {MAX_CELLS}")
    user_keys = {override.key for override in overrides}
    cells: list[Cell] = []
    for point in product(*(axis.values for axis in axes)):
        values = {axis.key: value for axis, value in zip(axes, point, strict=True)}
        preset = {**scale.set, **{key: value for key, value in values.items() if key not in user_keys}}
        preset = {key: value for key, value in preset.items() if key not in user_keys}
        chosen = {override.key: values.get(override.key, override.values[0]) for override in overrides}
        config = _configure(kind, definition, [preset, chosen])
        if check:
            kind.check(config)
        cells.append(Cell(_identify(definition.kind, config), config))
    grid = {axis.key: _axis_values(axis, cells) for axis in axes}
    _check_distinct(cells, grid)
    identity = run_id(definition.name, definition.kind, (cell.id for cell in cells))
    return Resolved(definition, kind, scale_name, grid, tuple(cells), identity)


def _preset_axis(key: str, values: list[Any] | str) -> Override:
    if isinstance(values, str):
        return Override(key, parse_values(key, values).values, True)
    if not values:
        raise InputError(f"the preset axis {key!r} is a grid with no cell; give it values")
    return Override(key, tuple(values), True)


def _axes(preset: list[Override], overrides: list[Override]) -> list[Override]:
    """The preset axes with the user's in their places, then the user's further axes."""
    by_key = {override.key: override for override in overrides}
    kept = [by_key.get(axis.key, axis) for axis in preset]
    preset_keys = {axis.key for axis in preset}
    added = [override for override in overrides if override.key not in preset_keys]
    return [axis for axis in [*kept, *added] if axis.is_axis]


def _configure(kind: ExperimentKind, definition: Definition, layers: list[dict[str, Any]]) -> Config:
    tree: dict[str, Any] = copy.deepcopy(definition.config)
    for layer in layers:
        # Kinds first: setting one replaces its section, which would undo a width given before it.
        for key in sorted(layer, key=lambda k: (k.rsplit(".", 1)[-1] != "kind", k.count("."))):
            assign(kind.config, tree, key, layer[key])
    return validate(kind.config, tree)


def _identify(kind: str, config: Config) -> str:
    try:
        return cell_id(kind, config.model_dump(mode="json"))
    except ValueError as error:
        # What pydantic lets through where a kind allows anything: infinite numbers, halves of characters.
        raise InputError(f"the configuration cannot be written down as JSON ({error}); mend its values") from None


def _axis_values(axis: Override, cells: list[Cell]) -> list[Any]:
    """The values of an axis as the cells hold them, after coercion."""
    values: dict[str, Any] = {}
    for cell in cells:
        value = look_up(cell.to_json(), axis.key)
        values.setdefault(canonical_json(value), value)
    return list(values.values())


def _check_distinct(cells: list[Cell], grid: Mapping[str, list[Any]]) -> None:
    seen: set[str] = set()
    for cell in cells:
        if cell.id in seen:
            place = ", ".join(f"{key}={look_up(cell.to_json(), key)}" for key in grid)
            raise InputError(
                f"the grid has the cell {place} twice; give each value once, and sweep no key of a section "
                "whose kind is replaced"
            )
        seen.add(cell.id)
