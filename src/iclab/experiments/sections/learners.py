"""The kinds of prompts and of learners that experiments are configured with: a new one is a line in a union here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from iclab.experiments.sections.deep import DeepLearner
from iclab.experiments.sections.estimators import (
    KernelRidgeLearner,
    LeastSquaresLearner,
    NearestNeighboursLearner,
    RidgeLearner,
    ZeroLearner,
)
from iclab.experiments.sections.one_layer import OneLayer, Oracle
from iclab.experiments.sections.outliers import AttentionLearner, OutlierPromptsSection
from iclab.experiments.sections.own import OwnLearner, OwnPrompts
from iclab.experiments.sections.single_index import SingleIndexPrompts

AnyPrompts = Annotated[SingleIndexPrompts | OutlierPromptsSection | OwnPrompts, Field(discriminator="kind")]
AnyLearner = Annotated[
    OneLayer
    | AttentionLearner
    | DeepLearner
    | KernelRidgeLearner
    | RidgeLearner
    | LeastSquaresLearner
    | NearestNeighboursLearner
    | ZeroLearner
    | Oracle
    | OwnLearner,
    Field(discriminator="kind"),
]
