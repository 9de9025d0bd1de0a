"""Alignment of the state with ``beta`` against the context length: simulation over the exact curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from iclab.config.limits import MOST_EXAMPLES, check_bytes, check_duration, check_lengths
from iclab.errors import InputError
from iclab.experiments.kind import Config, ExperimentKind
from iclab.experiments.sections.base import Setting
from iclab.experiments.sections.single_index import (
    Gate,
    SingleIndexPrompts,
    check_gate,
    check_prompts_fit,
    sampling_seconds,
)
from iclab.studies.alignment.theory import moments_of

if TYPE_CHECKING:
    from iclab.evaluation import Measurement
    from iclab.theory import GateMoments

_BATCH = 32


class AlignmentConfig(Config):
    """Gates by name, measured on the same prompts; ``exact_to`` is how far the exact curve goes."""

    seed: int = Field(0, ge=0)
    prompts: SingleIndexPrompts = SingleIndexPrompts()
    gates: dict[str, Gate] = Field(
        {
            "mamba": Gate(gate="mamba"),
            "no decay": Gate(gate="no_decay"),
            "exponential": Gate(gate="exp"),
            "linear": Gate(gate="linear"),
        },
        min_length=1,
    )
    num_examples: list[int] = Field([16, 32, 64, 128, 256, 512, 1024, 2048, 4096], min_length=1)
    num_prompts: int = Field(256, ge=2)
    exact_to: int = Field(2**16, ge=1, le=MOST_EXAMPLES)


def run_cell(config: AlignmentConfig) -> list[Measurement]:
    """Simulated and exact alignment on the coordinates of the support, for every gate whose moments exist."""
    from iclab.evaluation import Measurement, alignment
    from iclab.prompts import Stream

    prompts = config.prompts.build(config.seed)
    exact = {name: moments for name, gate in config.gates.items() if (moments := _moments(config, gate)) is not None}
    parts: dict[tuple[str, int, int], list[np.ndarray]] = {}
    stream = Stream(config.seed).child("evaluation")
    for start in range(0, config.num_prompts, _BATCH):
        size = min(_BATCH, config.num_prompts - start)
        batch = prompts.sample(stream, size, max(config.num_examples), 0, start=start)
        for name in exact:
            model = config.gates[name].build(prompts.ambient_dim, 1)
            for n in config.num_examples:
                found = alignment(model, batch.prefix(n), prompts.support)
                for degree in (1, 2):
                    parts.setdefault((name, n, degree), []).append(found.samples(degree))
    measured = [
        Measurement(name, "alignment", np.concatenate(samples, 1), "alignment", n, {"degree": degree})
        for (name, n, degree), samples in parts.items()
    ]
    lengths = sorted({*config.num_examples, *(2**k for k in range(4, config.exact_to.bit_length()))})
    for name, moments in exact.items():
        for degree in (1, 2):
            curve = moments.alignment_curve(lengths, prompts.intrinsic_dim, degree)
            measured.extend(
                Measurement.exact(name, "exact_alignment", value, n, {"degree": degree})
                for n, value in zip(lengths, curve, strict=True)
            )
    return measured


def _moments(config: AlignmentConfig, gate: Gate) -> GateMoments | None:
    return moments_of(config.prompts, gate, max(config.num_examples))


def check(config: AlignmentConfig) -> None:
    """Refuse what the types allow and the mathematics does not."""
    dim = config.prompts.ambient_dim
    check_lengths("num_examples", config.num_examples, 1, "an alignment needs a state, which no example leaves empty")
    setting = Setting(config.prompts, config.seed)
    _ = setting.distribution  # refuses what cannot be drawn
    check_prompts_fit("num_examples", _BATCH, max(config.num_examples), dim)
    samples = 8.0 * 2 * 2 * len(config.gates) * len(config.num_examples)
    check_bytes("num_prompts", config.num_prompts, samples * config.num_prompts)
    check_duration("num_prompts", config.num_prompts, seconds(config))
    if config.prompts.inputs != "gaussian":
        raise InputError(f"prompts.inputs is {config.prompts.inputs!r}; the exact curve is for gaussian inputs")
    clipped = [name for name, gate in config.gates.items() if gate.clip is not None]
    if clipped:
        raise InputError(f"gates.{clipped[0]}.clip is set; the exact curve is for unclipped labels: leave clip unset")
    for name, gate in config.gates.items():
        try:
            exists = _moments(config, gate) is not None
        except InputError as error:
            raise InputError(f"gates.{name}: {error}") from None
        if exists:
            check_gate(f"gates.{name}", gate, setting)
    if config.prompts.rotation is not None:
        raise InputError(
            "prompts.rotation is set; the exact curve is for a support among the coordinates: leave it unset"
        )


def seconds(config: AlignmentConfig) -> float:
    """Rough CPU seconds of a cell."""
    total = max(config.num_examples) + sum(config.num_examples) * len(config.gates)
    return sampling_seconds(config.num_prompts, total, config.prompts.ambient_dim) + 0.2


KIND = ExperimentKind(AlignmentConfig, run_cell, seconds, "iclab.studies.alignment.report:summarise", check)
