"""In-context error of pretrained models, estimators and oracles against the number of examples, on the same prompts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from iclab.errors import InputError
from iclab.experiments.error_names import THEORY, ZERO
from iclab.experiments.error_reading import read
from iclab.experiments.kind import Config, ExperimentKind
from iclab.experiments.learners import (
    Joint,
    KernelRidgeLearner,
    LearnerSection,
    OneLayer,
    Oracle,
    TwoStage,
)
from iclab.experiments.sections import SingleIndexPrompts, check_prompts_fit

if TYPE_CHECKING:
    from iclab.evaluation import Measurement
    from iclab.prompts import Prompts
    from iclab.theory import GateMoments

_BATCH = 32


class ErrorConfig(Config):
    """Learners by a short key; each section may carry the label that figures show.

    ``theory_gate`` names the learner whose gate the exact curve describes; the curve is left out where there is none.
    The error of predicting zero is always measured, on the same prompts.
    """

    seed: int = Field(0, ge=0)
    prompts: SingleIndexPrompts = SingleIndexPrompts()
    learners: dict[str, LearnerSection] = Field(
        {
            "mamba": OneLayer(label="Mamba, two-stage"),
            "no_gate": OneLayer(label="no gate, two-stage", gate="linear", role="ablation"),
            "kernel_all": KernelRidgeLearner(label="kernel ridge, all inputs"),
        },
        min_length=1,
    )
    theory_gate: str | None = "mamba"
    num_examples: list[int] = Field([16, 32, 64, 128, 256, 512], min_length=1)
    num_prompts: int = Field(128, ge=2)
    num_queries: int = Field(8, ge=1)


def run_cell(config: ErrorConfig) -> list[Measurement]:
    """Pretrain or tune every learner, then measure all of them on the same prompts."""
    from iclab.estimators import Zero
    from iclab.evaluation import error_curve
    from iclab.prompts import Stream

    prompts = config.prompts.build(config.seed)
    stream = Stream(config.seed)
    fitted = {name: section.learner(prompts, stream, config.num_examples) for name, section in config.learners.items()}
    zero = {ZERO: Zero()}

    def batches() -> Iterator[Prompts]:
        for start in range(0, config.num_prompts, _BATCH):
            size = min(_BATCH, config.num_prompts - start)
            yield prompts.sample(
                stream.child("evaluation"), size, max(config.num_examples), config.num_queries, start=start
            )

    measured: list[Measurement] = []
    # Learners that stop early (kernels cost N^3) are measured on the beginning of the very same prompts.
    for reach in sorted({_reach(config, name) for name in config.learners} | {max(config.num_examples)}):
        group = {_label(config, name): fitted[name] for name in config.learners if _reach(config, name) == reach}
        lengths = [n for n in config.num_examples if n <= reach]
        group |= zero if reach == max(config.num_examples) else {}
        curves = error_curve(group, batches(), lengths, label_variance=prompts.link.variance)
        measured.extend(m for by_name in curves.values() for curve in by_name.values() for m in curve.measurements())
    return measured + _recovery(config, fitted, prompts) + _theory(config)


def _label(config: ErrorConfig, name: str) -> str:
    return config.learners[name].label or name


def _reach(config: ErrorConfig, name: str) -> int:
    longest = max(config.num_examples)
    return min(longest, getattr(config.learners[name], "max_examples", longest))


def _recovery(config: ErrorConfig, fitted: dict, prompts) -> list[Measurement]:
    """How well each pretrained ``gamma`` singles out the support, where there is one to find."""
    import numpy as np

    from iclab.evaluation import Measurement, support_auc

    if prompts.rotation is not None or prompts.intrinsic_dim == prompts.ambient_dim:
        return []
    measured = []
    for name, section in config.learners.items():
        if isinstance(section, OneLayer):
            model = fitted[name]
            auc = support_auc(model.gamma, model.embedding, prompts.support, prompts.ambient_dim, 1)
            measured.append(Measurement(_label(config, name), "support_auc", np.array([[auc]])))
    return measured


def _theory(config: ErrorConfig) -> list[Measurement]:
    """``1 - sum_k c_k^2 a^(2k)`` at the exact alignment a of the gate on the support: the error of reading a Gaussian
    state with that alignment."""
    from iclab.evaluation import Measurement, readout_error

    moments = _moments(config)
    if moments is None:
        return []
    link = config.prompts.make_link()
    curve = moments.alignment_curve(config.num_examples, config.prompts.intrinsic_dim)
    errors = readout_error(link, curve) / link.variance
    return [
        Measurement.exact(THEORY, "squared_error", float(e), n)
        for n, e in zip(config.num_examples, errors, strict=True)
    ]


def _moments(config: ErrorConfig) -> GateMoments | None:
    from iclab.theory import GateMoments

    if config.theory_gate is None or config.prompts.inputs != "gaussian":
        return None
    section = config.learners[config.theory_gate]
    assert isinstance(section, OneLayer | Oracle)  # `check` has seen to it
    bias = section.build(config.prompts.ambient_dim, 1).bias
    return GateMoments(config.prompts.make_link(), config.prompts.noise, section.rho, bias, 1, gate=section.gate)


def check(config: ErrorConfig) -> None:
    """Refuse what the types allow and the mathematics does not."""
    config.prompts.build(config.seed)
    check_prompts_fit("num_examples", _BATCH, max(config.num_examples) + config.num_queries, config.prompts.ambient_dim)
    labels = [_label(config, name) for name in config.learners]
    taken = {ZERO, THEORY} & set(labels)
    if taken:
        raise InputError(f"a learner is called {taken.pop()!r}, which every run measures itself; choose another label")
    if len(set(labels)) < len(labels):
        raise InputError(f"two learners have the same label in {labels}; give each its own")
    if min(config.num_examples) < 1 or len(set(config.num_examples)) < len(config.num_examples):
        raise InputError(f"num_examples is {config.num_examples}; expected distinct lengths >= 1")
    if config.theory_gate is not None:
        section = config.learners.get(config.theory_gate)
        if not isinstance(section, OneLayer | Oracle):
            known = ", ".join(n for n, s in config.learners.items() if isinstance(s, OneLayer | Oracle))
            raise InputError(f"theory_gate is {config.theory_gate!r}; expected a gated learner ({known}) or null")
        if section.clip is not None:
            raise InputError(
                f"theory_gate is {config.theory_gate!r}, whose labels are clipped; the exact curve is for "
                "unclipped labels: "
                "name another learner or null"
            )
        moments = _moments(config)
        try:
            _ = moments.token if moments is not None else None
        except InputError as error:
            raise InputError(f"the exact curve of theory_gate does not exist ({error}); set theory_gate=null") from None
    for name, section in config.learners.items():
        told = isinstance(section, Oracle) or getattr(section, "coordinates", "all") == "support"
        if told and config.prompts.rotation is not None:
            raise InputError(
                f"learners.{name} is told a support among the coordinates, which prompts.rotation removes; leave the "
                "rotation unset or the learner out"
            )
        if section.kind == "direction_readout" and config.prompts.inputs != "gaussian":
            raise InputError(
                f"learners.{name} is optimal for gaussian inputs and prompts.inputs is {config.prompts.inputs!r}; "
                f"take kind head_readout or leave it out"
            )
        pretraining = getattr(section, "pretraining", None)
        if pretraining is not None:
            check_prompts_fit(f"learners.{name}.pretraining", 64, pretraining.num_examples, config.prompts.ambient_dim)
        if isinstance(pretraining, Joint) and pretraining.batch_size % 8:
            raise InputError(
                f"learners.{name}.pretraining.batch_size is {pretraining.batch_size}; expected a multiple of 8"
            )
        if isinstance(pretraining, TwoStage) and not set(pretraining.degrees) <= {0, 1, 2}:
            raise InputError(f"learners.{name}.pretraining.degrees is {pretraining.degrees}; expected some of 0, 1, 2")


def seconds(config: ErrorConfig) -> float:
    """Rough CPU seconds of a cell."""
    return 0.3 + sum(
        section.seconds(config.prompts.ambient_dim, config.num_examples, config.num_prompts)
        for section in config.learners.values()
    )


KIND = ExperimentKind(ErrorConfig, run_cell, seconds, read, check)
