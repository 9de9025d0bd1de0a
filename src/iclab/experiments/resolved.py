"""From a name and overrides to the cells of a run."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from iclab.config.changes import Change, Path, apply_changes, covers, split_mode
from iclab.config.identity import SCHEMA_VERSION, canonical_json, cell_id, run_id
from iclab.config.keys import look_up
from iclab.config.names import check_keys
from iclab.config.overrides import Override, check_text, pair, parse_overrides, parse_values
from iclab.config.ranges import MAX_CELLS, expand_lists
from iclab.config.validation import validate
from iclab.errors import InputError, did_you_mean, listed
from iclab.experiments.cost import Cost
from iclab.experiments.definitions import Definition, Scale, load_definition
from iclab.experiments.kind import Config, ExperimentKind, total_cost, total_forecast
from iclab.experiments.registry import load_kind

DEFAULT_SCALE = "laptop"


@dataclass(frozen=True)
class Cell:
    """A point of the grid: the unit of work and of resume. ``labels`` has its label on each axis that has labels."""

    id: str
    config: Config
    labels: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the configuration with all defaults, as JSON values."""
        return self.config.model_dump(mode="json")


@dataclass(frozen=True)
class Resolved:
    """An experiment that is ready to run.

    Attributes:
        definition: where it comes from.
        kind: what measures its cells.
        scale: the name of the scale in use.
        grid: the swept keys in order, each with its values; of an axis of mappings, the keys that these set.
        axes: the keys that each axis with labels sets.
        cells: their product.
        run_id: hash of the science: the experiment, its kind and its cells.
    """

    definition: Definition
    kind: ExperimentKind
    scale: str
    grid: dict[str, list[Any]]
    axes: dict[str, list[str]]
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

    @property
    def disk(self) -> float | None:
        """Rough bytes that all cells leave in the run folder; ``None`` where the kind does not know."""
        parts = [self.kind.disk_bytes(cell.config) for cell in self.cells]
        return None if None in parts else sum(part for part in parts if part is not None)

    @property
    def cost(self) -> Cost:
        """Rough cost of all cells, one after another. May import the numeric libraries, as `check` may."""
        return total_cost(self.kind, (cell.config for cell in self.cells))

    def check(self) -> None:
        """Ask the kind whether the mathematics and this machine allow each cell. May import the numeric libraries.

        Raises:
            InputError: for the first that they do not.
        """
        for cell in self.cells:
            self.kind.check(cell.config)

    def to_json(self) -> dict[str, Any]:
        """Return what ``config.json`` of a run folder holds; ``config`` is that of the first cell."""
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
            "axes": self.axes,
            "cells": [{"id": cell.id, "config": cell.to_json(), "labels": cell.labels} for cell in self.cells],
        }


def resolve(name: str, arguments: Iterable[str] = (), *, check: bool = True) -> Resolved:
    """Resolve an experiment into its cells, each with a validated configuration.

    Args:
        name: of the catalogue, or the path of a YAML file.
        arguments: ``key=value`` overrides, see `iclab.config.overrides`; ``scale=full`` picks the scale.
        check: ask the kind, too, whether the mathematics allows each cell. That may import the numeric libraries.

    Raises:
        InputError: for anything in them that does not exist or is not allowed.
    """
    overrides, scale_name = parse_overrides(arguments)
    check_text("the name", name)
    definition = load_definition(name)
    kind = load_kind(definition.kind, definition.folder)
    scale_name = scale_name or DEFAULT_SCALE
    if scale_name not in definition.scale_names:
        raise InputError(
            f"{definition.name} has no scale {scale_name!r}{did_you_mean(scale_name, definition.scale_names)}; "
            f"expected scale= one of {listed(definition.scale_names)}"
        )
    overrides = [_paired(kind, override) for override in overrides]
    _check_given_once(overrides)
    preset = _Preset.of(kind, definition, scale_name)
    axes = _axes(preset.axes, overrides)
    size = math.prod(len(axis.values) for axis in axes)
    if size > MAX_CELLS:
        raise InputError(f"the grid has {size} cells; expected at most {MAX_CELLS}")
    removed = {axis.key for axis in preset.axes}
    fixed = [o for o in overrides if not (o.is_axis or (o.mode == "delete" and o.key in removed))]
    chosen = [change for override in fixed for change in _fixed_changes(override)]
    cells: list[Cell] = []
    for point in product(*(range(len(axis.values)) for axis in axes)):
        of_preset, of_user = list(preset.layers[-1]), list(chosen)
        for axis, index in zip(axes, point, strict=True):
            (of_user if axis in overrides else of_preset).extend(axis.changes(axis.values[index]))
        config = _configure(kind, preset.config, [*preset.layers[:-1], of_preset, of_user])
        labels = {axis.key: axis.labels[index] for axis, index in zip(axes, point, strict=True) if axis.labels}
        cells.append(Cell(_identify(definition.kind, config), config, labels))
    grid = {key: _axis_values(key, cells) for axis in axes for key in axis.swept_keys}
    labelled = {axis.key: axis.swept_keys for axis in axes if axis.labels}
    _check_distinct(cells, grid)
    run = run_id(definition.name, definition.kind, (cell.id for cell in cells))
    resolved = Resolved(definition, kind, scale_name, grid, labelled, tuple(cells), run)
    if check:
        resolved.check()
    return resolved


@dataclass(frozen=True)
class _Preset:
    """What the files of an experiment say for one scale.

    Attributes:
        config: of the base that extends nothing, as it stands.
        layers: changes of it, layer after layer.
        axes: of the grid.
    """

    config: dict[str, Any]
    layers: list[list[Change]]
    axes: list[Override]

    @classmethod
    def of(cls, kind: ExperimentKind, definition: Definition, scale_name: str) -> _Preset:
        """A file changes its base as arguments would: it comes after all that the base says."""
        layers: list[list[Change]] = []
        axes: list[Override] = []
        for part in definition.chain:
            scale = part.scales.get(scale_name, Scale())
            config = [_preset_value(key, value) for key, value in part.config.items()] if part.base else []
            fixed = [_preset_value(key, value) for key, value in scale.set.items()]
            removed = {split_mode(key)[0] for key, values in scale.grid.items() if values is None}
            own = [_preset_axis(kind, key, values) for key, values in scale.grid.items() if values is not None]
            axes = _axes([axis for axis in axes if axis.key not in removed], [*config, *fixed, *own])
            layers += [[c for o in overrides for c in _fixed_changes(o)] for overrides in (config, fixed)]
        return cls(definition.chain[0].config, layers, axes)


def _preset_axis(kind: ExperimentKind, name: str, values: list[Any] | str) -> Override:
    key, mode = split_mode(name)
    numbers = list(parse_values(key, values).values) if isinstance(values, str) else expand_lists(values)
    if not numbers:
        raise InputError(f"the preset axis {key!r} is a grid with no cell; give it values")
    return _paired(kind, Override(key, tuple(numbers), True, mode))


def _preset_value(name: str, value: object) -> Override:
    key, mode = split_mode(name)
    return Override(key, (expand_lists(value),), False, mode)


def _paired(kind: ExperimentKind, override: Override) -> Override:
    """An axis of mappings whose name is no key of the configuration pairs the keys in them."""
    known = override.path[0] in kind.config.model_fields
    if known or not override.is_axis or not any(isinstance(value, dict) for value in override.values):
        return override
    return pair(override)


def _fixed_changes(override: Override) -> list[Change]:
    """The changes of what is no axis.

    Raises:
        InputError: for an empty mapping, which merges nothing.
    """
    if override.values[0] == {} and override.mode == "merge":
        key = override.key
        raise InputError(f"{key}={{}} changes nothing, since a mapping merges; write {key}:={{}} to empty it")
    return override.changes(override.values[0])


def _check_given_once(overrides: list[Override]) -> None:
    """Refuse arguments that set one key in two ways, as ``prompts={noise: 0}`` and ``prompts.noise=1``."""
    given: dict[Path, str] = {}
    for override in overrides:
        paths = {change.path for value in override.values for change in override.changes(value)}
        for path in sorted(paths & given.keys()):
            key = ".".join(path)
            raise InputError(f"{key!r} is set by {given[path]!r} and by {override.key!r}; give it once")
        given |= dict.fromkeys(paths, override.key)


def _axes(preset: list[Override], overrides: list[Override]) -> list[Override]:
    """The preset axes with the user's in their positions, then the user's further axes.

    A preset axis goes where the user sets all that it varies, or deletes it by its name.
    """
    deleted = {override.key for override in overrides if override.mode == "delete"}
    swept = {override.key: override for override in overrides if override.is_axis}
    set_paths = {path for override in overrides for path in override.paths}
    axes: list[Override] = []
    for axis in preset:
        if axis.key in deleted:
            continue
        if axis.key in swept:
            axes.append(swept.pop(axis.key))
        elif not all(covers(set_paths, change.path) for value in axis.values for change in axis.changes(value)):
            axes.append(axis)
    return [*axes, *swept.values()]


def _configure(kind: ExperimentKind, config: dict[str, Any], layers: list[list[Change]]) -> Config:
    tree: dict[str, Any] = copy.deepcopy(config)
    for layer in layers:
        apply_changes(kind.config, tree, layer)
    return validate(kind.config, tree)


def _identify(kind: str, config: Config) -> str:
    content = config.model_dump(mode="json")
    try:
        identity = cell_id(kind, content)
    except ValueError as error:
        # What pydantic lets through where a kind allows anything: infinite numbers, halves of characters.
        raise InputError(f"the configuration cannot be written down as JSON ({error}); fix its values") from None
    check_keys(content)
    return identity


def _axis_values(key: str, cells: list[Cell]) -> list[Any]:
    """The values of a swept key as the cells hold them, after coercion."""
    values: dict[str, Any] = {}
    for cell in cells:
        value = look_up(cell.to_json(), key)
        values.setdefault(canonical_json(value), value)
    return list(values.values())


def _check_distinct(cells: list[Cell], grid: Mapping[str, list[Any]]) -> None:
    seen: set[str] = set()
    for cell in cells:
        if cell.id in seen:
            point = ", ".join(f"{key}={look_up(cell.to_json(), key)}" for key in grid)
            raise InputError(
                f"the grid has the cell {point} twice; give each value once, and sweep no key of a section "
                "whose kind is replaced"
            )
        seen.add(cell.id)
