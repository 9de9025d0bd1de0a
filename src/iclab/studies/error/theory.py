"""The exact curve that stands beside measured errors: what the gate's exact alignment lets a readout reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iclab.experiments.sections.learners import OneLayer, Oracle
from iclab.studies.error.names import THEORY

if TYPE_CHECKING:
    from iclab.evaluation import Measurement
    from iclab.studies.error.config import ErrorConfig
    from iclab.theory import GateMoments


def theory_measurements(config: ErrorConfig) -> list[Measurement]:
    """``1 - sum_k c_k^2 a^(2k)`` at the exact alignment a of the gate on the support: the error of reading a Gaussian
    state with that alignment."""
    from iclab.evaluation import Measurement, readout_error

    moments = theory_moments(config)
    if moments is None:
        return []
    link = config.prompts.make_link()
    curve = moments.alignment_curve(config.num_examples, config.prompts.intrinsic_dim)
    errors = readout_error(link, curve) / link.variance
    return [
        Measurement.exact(THEORY, "squared_error", float(e), n)
        for n, e in zip(config.num_examples, errors, strict=True)
    ]


def theory_moments(config: ErrorConfig) -> GateMoments | None:
    """The moments of the gate that ``theory_gate`` names; ``None`` where no exact curve is asked for or known."""
    from iclab.theory import GateMoments

    if config.theory_gate is None or config.prompts.inputs != "gaussian":
        return None
    section = config.learners[config.theory_gate]
    assert isinstance(section, OneLayer | Oracle)  # `check` has seen to it
    bias = section.build(config.prompts.ambient_dim, 1).bias
    return GateMoments(config.prompts.make_link(), config.prompts.noise, section.rho, bias, 1, gate=section.gate)
