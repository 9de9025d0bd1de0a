"""Experiments: their kinds, the catalogue of YAML files that set them up, and the cells of a run."""

from typing import TYPE_CHECKING

from iclab.lazy import lazy

if TYPE_CHECKING:
    from iclab.experiments.definitions import Definition, catalogue_names, load_definition
    from iclab.experiments.kind import Config, ExperimentKind
    from iclab.experiments.registry import KINDS, load_kind
    from iclab.experiments.resolved import Cell, Resolved, resolve

__all__ = [
    "KINDS",
    "Cell",
    "Config",
    "Definition",
    "ExperimentKind",
    "Resolved",
    "catalogue_names",
    "load_definition",
    "load_kind",
    "resolve",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "definitions": ("Definition", "catalogue_names", "load_definition"),
        "kind": ("Config", "ExperimentKind"),
        "registry": ("KINDS", "load_kind"),
        "resolved": ("Cell", "Resolved", "resolve"),
    },
)
