"""Fitting a model's weights over many tasks."""

from iclab.pretraining.stage_one import GammaGradient, gamma_gradient
from iclab.pretraining.two_stage import TwoStageRecord, set_gamma, two_stage

__all__ = ["GammaGradient", "TwoStageRecord", "gamma_gradient", "set_gamma", "two_stage"]
