"""Does Stage I find the support? Area under the ROC curve of ``|gamma*|`` against N_pt, T1 and d."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from iclab.config.limits import check_bytes, check_duration
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

if TYPE_CHECKING:
    from iclab.evaluation import Measurement

NO_GATE = "no gate"
_CHUNK = 8


class SupportConfig(Config):
    """One Stage I step. Its measurements are single numbers, so intervals are over seeds."""

    seed: int = Field(0, ge=0)
    prompts: SingleIndexPrompts = SingleIndexPrompts()
    gate: Gate = Gate()
    num_examples: int = Field(512, ge=1)
    stage1_tasks: int = Field(6000, ge=1)
    start_scale: float = Field(0.2, ge=1e-6, le=1e6)
    width: int = Field(512, ge=1)


def run_cell(config: SupportConfig) -> list[Measurement]:
    """The area under the curve by Hermite degree, after one Stage I step."""
    from iclab.evaluation import Measurement, support_auc
    from iclab.pretraining import gamma_gradient, start_gamma
    from iclab.prompts import Stream

    prompts = config.prompts.build(config.seed)
    model = config.gate.build(prompts.ambient_dim, config.width)
    stream = Stream(config.seed).child("pretraining")
    start_gamma(model, prompts, stream, config.num_examples, config.start_scale)
    gradient = gamma_gradient(model, prompts, stream.child("stage1"), config.stage1_tasks, config.num_examples)
    name = NO_GATE if config.gate.gate == "linear" else f"{config.gate.gate} gate"
    return [
        Measurement(
            name,
            "support_auc",
            np.array([[support_auc(gradient.mean, model.embedding, prompts.support, prompts.ambient_dim, degree)]]),
            num_examples=config.num_examples,
            keys={"degree": degree},
        )
        for degree in (1, 2)
    ]


def check(config: SupportConfig) -> None:
    """Refuse what the types allow and the mathematics does not."""
    setting, dim = Setting(config.prompts, config.seed), config.prompts.ambient_dim
    _ = setting.distribution  # refuses what cannot be drawn
    check_prompts_fit("num_examples", 64, config.num_examples, dim)
    # A chunk of prompts is read with a gradient through the whole head.
    check_bytes("width", config.width, 4 * 8.0 * _CHUNK * config.width)
    check_duration("stage1_tasks", config.stage1_tasks, seconds(config))
    check_gate("gate", config.gate, setting)
    if config.prompts.intrinsic_dim == dim:
        raise InputError("intrinsic_dim equals ambient_dim: every coordinate is in the support; lower intrinsic_dim")
    if config.prompts.rotation is not None:
        raise InputError("a rotated subspace has no support among the coordinates; leave prompts.rotation unset")


def seconds(config: SupportConfig) -> float:
    """Rough CPU seconds of a cell."""
    return sampling_seconds(config.stage1_tasks + 256, config.num_examples, config.prompts.ambient_dim) + 0.05


KIND = ExperimentKind(SupportConfig, run_cell, seconds, "iclab.studies.support.report:summarise", check)
