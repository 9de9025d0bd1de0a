"""Whether a ``config.json`` is what the laboratory wrote: its ids are hashes of what it says."""

from __future__ import annotations

from typing import Any

from iclab.config.identity import canonical_json, cell_id, run_id
from iclab.config.keys import look_up

_TEXTS = ("experiment", "kind", "scale", "run_id")
_CAPTIONS = ("title", "question", "source")


def contradiction(config: dict[str, Any]) -> str:
    """What is wrong with the description of a run; empty where all of it agrees.

    The ids of cells must be those of their configurations, the run id that of the cells, and the grid and the base
    configuration must be what the cells say. Title, question and source carry no id and must be texts only.
    """
    for key in (*_TEXTS, *_CAPTIONS):
        if not isinstance(config.get(key, "" if key in _CAPTIONS else None), str):
            return f"its {key} is no text"
    cells, grid = config["cells"], config["grid"]
    if not isinstance(cells, list) or not cells or not all(map(_is_cell, cells)):
        return "its cells are no list of ids and configurations"
    if not isinstance(grid, dict) or not all(isinstance(values, list) for values in grid.values()):
        return "its grid gives no values to keys"
    axes = config["axes"]
    if not isinstance(axes, dict) or not all(isinstance(keys, list) for keys in axes.values()):
        return "its axes are no lists of keys"
    if not all(axes.keys() == cell["labels"].keys() for cell in cells):
        return "its cells have other labels than those of its axes"
    try:
        return _disagreement(config, cells, grid)
    except (ValueError, RecursionError):
        return "it holds values that no configuration has"


def _is_cell(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("labels"), dict):
        return False
    return isinstance(entry.get("id"), str) and isinstance(entry.get("config"), dict)


def _disagreement(config: dict[str, Any], cells: list[dict[str, Any]], grid: dict[str, list[Any]]) -> str:
    for cell in cells:
        if cell["id"] != cell_id(config["kind"], cell["config"]):
            return f"the id of the cell {cell['id'][:40]} is not that of its configuration"
    ids = [cell["id"] for cell in cells]
    if len(set(ids)) < len(ids):
        return "a cell stands in it twice"
    if config["run_id"] != run_id(config["experiment"], config["kind"], ids):
        return "the run id is not that of the experiment and its cells"
    if canonical_json(config["config"]) != canonical_json(cells[0]["config"]):
        return "its config is not that of the first cell"
    points = [{key: canonical_json(look_up(cell["config"], key)) for key in grid} for cell in cells]
    for key, values in grid.items():
        if [canonical_json(value) for value in values] != list(dict.fromkeys(point[key] for point in points)):
            return f"its grid gives other values to {key} than its cells"
    if len({tuple(point.values()) for point in points}) < len(cells):
        return "its grid lacks a key in which the cells differ"
    return ""
