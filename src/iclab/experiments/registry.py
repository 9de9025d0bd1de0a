"""The kinds of experiments by name. They are imported when used, so listing experiments needs no torch."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from iclab.errors import InputError
from iclab.experiments.kind import ExperimentKind
from iclab.experiments.nearest import did_you_mean, listed

KINDS: dict[str, str] = {
    "alignment": "iclab.experiments.alignment:KIND",
    "error": "iclab.experiments.error:KIND",
    "exponents": "iclab.experiments.exponents:KIND",
    "outlier_attack": "iclab.experiments.outlier_attack:KIND",
    "outlier_error": "iclab.experiments.outlier_error:KIND",
    "outlier_gates": "iclab.experiments.outlier_gates:KIND",
    "outlier_training": "iclab.experiments.outlier_training:KIND",
    "support": "iclab.experiments.support:KIND",
}


def module_of(name: str) -> str:
    """The name of the module that holds the kind called ``name``.

    Raises:
        InputError: if it is neither a key of `KINDS` nor ``module:object``.
    """
    module, colon, attribute = KINDS.get(name, name).partition(":")
    if not (colon and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise InputError(
            f"unknown kind {name!r}{did_you_mean(name, KINDS)}; expected one of {listed(KINDS)}, "
            "or module:object for your own"
        )
    return module


def load_kind(name: str, folder: Path | None = None) -> ExperimentKind:
    """The kind called ``name``: a key of `KINDS`, or ``module:object`` for a user's own.

    Args:
        name: of the kind.
        folder: where a user's module is looked for after ``sys.path``; it is appended to ``sys.path``.

    Raises:
        InputError: for an unknown name, a module that cannot be imported, or an object that is no `ExperimentKind`.
    """
    module_name = module_of(name)
    attribute = KINDS.get(name, name).partition(":")[2]
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # the module may be a user's own and raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise InputError(
            f"the kind {name!r} cannot be imported ({reason}); put its module beside the YAML file or on PYTHONPATH"
            if isinstance(error, ImportError)
            else f"the kind {name!r} cannot be imported ({reason}); fix the module {module_name}"
        ) from error
    kind = getattr(module, attribute, None)
    if not isinstance(kind, ExperimentKind):
        raise InputError(f"{attribute!r} in {module_name} is {kind!r}; expected an ExperimentKind")
    if "seed" not in kind.config.model_fields:
        raise InputError(f"the configuration of the kind {name!r} has no field 'seed'; expected one, an integer")
    return kind
