"""Fitting a model's weights over many tasks."""

from iclab.pretraining.joint import JointRecord, joint
from iclab.pretraining.stage_one import GammaGradient, gamma_gradient
from iclab.pretraining.two_stage import TwoStageRecord, set_gamma, start_gamma, two_stage

__all__ = [
    "GammaGradient",
    "JointRecord",
    "TwoStageRecord",
    "gamma_gradient",
    "joint",
    "set_gamma",
    "start_gamma",
    "two_stage",
]
