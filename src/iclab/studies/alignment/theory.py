"""Exact moments behind a measured alignment: the curve that simulation is compared with, and how far it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iclab.errors import InputError

if TYPE_CHECKING:
    from iclab.experiments.sections.single_index import Gate, SingleIndexPrompts
    from iclab.theory import GateMoments


def moments_of(prompts: SingleIndexPrompts, gate: Gate, num_examples: int) -> GateMoments | None:
    """The exact moments, or ``None`` where an exponential tilt has none (unbounded labels)."""
    from iclab.theory import GateMoments

    bias = gate.build(prompts.ambient_dim, 1).bias
    moments = GateMoments(prompts.make_link(), prompts.noise, gate.rho, bias, num_examples, gate=gate.gate)
    try:
        _ = moments.token
    except InputError:
        if gate.gate == "exp":
            return None
        raise
    return moments
