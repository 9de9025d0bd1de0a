"""Does Stage I find the support? Area under the ROC curve of ``|gamma*|`` against N_pt, T1 and d."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from iclab.errors import InputError
from iclab.experiments.kind import Config, ExperimentKind
from iclab.experiments.reading import Figure, Finding, Panel, Reading, Table
from iclab.experiments.sections import Gate, SingleIndexPrompts, check_prompts_fit, sampling_seconds
from iclab.experiments.series import place_title, places_of, present, quantity, series

if TYPE_CHECKING:
    from iclab.evaluation import Measurement
    from iclab.runs.results import Results


class SupportConfig(Config):
    """One Stage I step. Its measurements are single numbers, so intervals are over seeds."""

    seed: int = Field(0, ge=0)
    prompts: SingleIndexPrompts = SingleIndexPrompts()
    gate: Gate = Gate()
    num_examples: int = Field(512, ge=1)
    stage1_tasks: int = Field(6000, ge=1)
    start_scale: float = Field(0.2, gt=0)
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
    name = "no gate" if config.gate.gate == "linear" else f"{config.gate.gate} gate"
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
    prompts = config.prompts.build(config.seed)
    check_prompts_fit("num_examples", 64, config.num_examples, config.prompts.ambient_dim)
    if prompts.intrinsic_dim == prompts.ambient_dim:
        raise InputError("intrinsic_dim equals ambient_dim: every coordinate is in the support; lower intrinsic_dim")
    if config.prompts.rotation is not None:
        raise InputError("a rotated subspace has no support among the coordinates; leave prompts.rotation unset")


def read(results: Results) -> Reading:
    """Recovery against N_pt, a panel for each dimension and number of tasks."""
    summary = results.summary[results.summary["metric"] == "support_auc"]
    places = present(summary, "ambient_dim", "stage1_tasks", "intrinsic_dim", "link")
    figures, findings, rows = [], [], []
    for degree in (1, 2):
        panels = []
        part = summary[summary["degree"] == degree]
        for place, here in places_of(part, places):
            title = place_title(places, place)
            curves = [
                series(group, "num_examples", str(learner), "model" if learner != "no gate" else "ablation")
                for learner, group in here.groupby("learner", sort=False)
            ]
            panels.append(
                Panel(title, "pretraining context N_pt", f"area under ROC, degree {degree}", curves, "log2",
                      horizontal=[(0.5, "chance")], y_limits=(0.25, 1.03))
            )  # fmt: skip
            last = here[here["num_examples"] == here["num_examples"].max()]
            rows.extend(
                [title, str(r["learner"]), degree, int(r["num_examples"]), quantity(r), int(r["num_seeds"])]
                for _, r in last.iterrows()
            )
        figures.append(
            Figure(
                f"support-degree-{degree}",
                f"Stage I recovery of the support by |gamma*| among the coordinates of degree {degree}; 1 is "
                "perfect, 1/2 "
                "is chance. Points are seeds, each one pretraining.",
                panels,
            )
        )
        findings.extend(_findings(part, degree))
    return Reading(
        findings=findings,
        figures=figures,
        tables=[
            Table(
                "support",
                "Area under the ROC curve at the longest pretraining context (interval over seeds).",
                ["prompts", "gate", "degree", "N_pt", "area under ROC", "seeds"],
                rows,
            )
        ],
        notes=[
            "In theory an ungated model can separate the support too, through the variance of S, since its mean "
            "is blind "
            "to links with ie > 2; the table shows how far it does here. Stage I alone does not decide whether "
            "the gate "
            "matters: the error experiments compare at test time."
        ],
    )


def _findings(part, degree: int) -> list[Finding]:
    findings = []
    for learner, group in part.groupby("learner", sort=False):
        perfect = group[group["value"] >= 0.99]
        findings.append(
            Finding(
                f"Degree {degree}, {learner}: the mean area under the ROC curve is at least 0.99 at {len(perfect)} of "
                f"{len(group)} settings"
                + (f", first at N_pt = {int(perfect['num_examples'].min())}" if len(perfect) else "")
                + f" ({int(group['num_seeds'].min())} seeds each)."
            )
        )
    return findings


def seconds(config: SupportConfig) -> float:
    """Rough CPU seconds of a cell."""
    return sampling_seconds(config.stage1_tasks + 256, config.num_examples, config.prompts.ambient_dim) + 0.05


KIND = ExperimentKind(SupportConfig, run_cell, seconds, read, check)
