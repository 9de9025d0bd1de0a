"""The exact curve that stands beside measured errors: what the gate's exact alignment lets a readout reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iclab.errors import InputError
from iclab.experiments.sections.single_index import Gate, SingleIndexPrompts
from iclab.studies.error.names import THEORY

if TYPE_CHECKING:
    from iclab.evaluation import Measurement
    from iclab.studies.error.config import ErrorConfig
    from iclab.theory import GateMoments


def theory_measurements(config: ErrorConfig) -> list[Measurement]:
    """``1 - sum_k c_k^2 a^(2k)`` at the exact alignment a of the gate on the support: the error of reading a Gaussian
    state with that alignment."""
    from iclab.evaluation import Measurement, readout_error

    prompts, moments = config.prompts, theory_moments(config)
    if moments is None or not isinstance(prompts, SingleIndexPrompts):
        return []
    link = prompts.make_link()
    curve = moments.alignment_curve(config.num_examples, prompts.intrinsic_dim)
    errors = readout_error(link, curve) / link.variance
    return [
        Measurement.exact(THEORY, "squared_error", float(e), n)
        for n, e in zip(config.num_examples, errors, strict=True)
    ]


def theory_moments(config: ErrorConfig) -> GateMoments | None:
    """The moments of the gate that ``theory_gate`` names; ``None`` where no exact curve is asked for or known.

    Raises:
        InputError: for prompts without a link, and a learner without a gate.
    """
    from iclab.theory import GateMoments

    name, prompts = config.theory_gate, config.prompts
    if name is None:
        return None
    gate = config.learners.get(name)
    if not isinstance(gate, Gate):
        known = ", ".join(key for key, section in config.learners.items() if isinstance(section, Gate))
        choice = f"a one-layer learner ({known}) or null" if known else "null: no learner is a one-layer model"
        raise InputError(f"theory_gate is {name!r}; expected {choice}")
    if not isinstance(prompts, SingleIndexPrompts):
        raise InputError(
            f"theory_gate is {name!r} and prompts.kind {prompts.kind!r}; the exact curve is for single-index prompts: "
            "set theory_gate=null"
        )
    if prompts.inputs != "gaussian":
        return None
    bias = gate.build(prompts.ambient_dim, 1).bias
    return GateMoments(prompts.make_link(), prompts.noise, gate.rho, bias, 1, gate=gate.gate)


def check_theory(config: ErrorConfig) -> None:
    """Refuse a ``theory_gate`` that has no exact curve."""
    moments = theory_moments(config)
    gate = config.learners[config.theory_gate] if config.theory_gate is not None else None
    if isinstance(gate, Gate) and gate.clip is not None:
        raise InputError(
            f"theory_gate is {config.theory_gate!r}, whose labels are clipped; the exact curve is for unclipped ones: "
            "set theory_gate=null"
        )
    try:
        _ = moments.token if moments is not None else None
    except InputError as error:
        raise InputError(f"the exact curve of theory_gate does not exist ({error}); set theory_gate=null") from None
