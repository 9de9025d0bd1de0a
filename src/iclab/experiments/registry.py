"""The kinds of experiments by name. They are imported when used, so listing experiments needs no torch."""

from __future__ import annotations

import sys
from pathlib import Path

from iclab.config.loading import load_object, split_name
from iclab.errors import InputError, did_you_mean, listed
from iclab.experiments.kind import ExperimentKind

KINDS: dict[str, str] = {
    "alignment": "iclab.studies.alignment.study:KIND",
    "error": "iclab.studies.error.study:KIND",
    "exponents": "iclab.studies.exponents.study:KIND",
    "outlier_attack": "iclab.studies.outliers.attack.study:KIND",
    "outlier_error": "iclab.studies.outliers.error.study:KIND",
    "outlier_gates": "iclab.studies.outliers.gates.study:KIND",
    "outlier_training": "iclab.studies.outliers.training.study:KIND",
    "support": "iclab.studies.support.study:KIND",
}


def load_kind(name: str, folder: Path | None = None) -> ExperimentKind:
    """Load the kind called ``name``.

    Args:
        name: a key of `KINDS`, or ``module:object`` for a user's own.
        folder: where a user's module is looked for after ``sys.path``; it is appended to ``sys.path``.

    Raises:
        InputError: for an unknown name, a module that cannot be imported, an object that is no `ExperimentKind`, or one
            whose configuration has no field ``seed``.
    """
    full_name = KINDS.get(name, name)
    if split_name(full_name) is None:
        raise InputError(
            f"unknown kind {name!r}{did_you_mean(name, KINDS)}; expected one of {listed(KINDS)}, "
            "or module:object for your own"
        )
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))
    kind = load_object("the kind", full_name)
    if not isinstance(kind, ExperimentKind):
        raise InputError(f"the kind {name!r} is {kind!r}; expected an ExperimentKind")
    if "seed" not in kind.config.model_fields:
        raise InputError(f"the configuration of the kind {name!r} has no field 'seed'; expected one, an integer")
    return kind
