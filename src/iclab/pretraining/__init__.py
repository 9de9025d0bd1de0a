"""Fitting a model's weights over many tasks."""

from iclab.pretraining.checkpoint_folder import load_checkpoint
from iclab.pretraining.curriculum import Curriculum, Ramp
from iclab.pretraining.failures import NonFiniteLossError
from iclab.pretraining.hinge_gradient import hinge_gradient
from iclab.pretraining.hinge_record import HingeRecord, HingeWindow
from iclab.pretraining.hinge_sgd import hinge_sgd
from iclab.pretraining.joint import JointRecord, joint
from iclab.pretraining.stage_one import GammaGradient, gamma_gradient
from iclab.pretraining.train import train
from iclab.pretraining.train_record import TrainProgress, TrainRecord
from iclab.pretraining.two_stage import TwoStageRecord, set_gamma, start_gamma, two_stage
from iclab.pretraining.writers import MetricsWriter, TensorBoard, WeightsAndBiases

__all__ = [
    "Curriculum",
    "GammaGradient",
    "HingeRecord",
    "HingeWindow",
    "JointRecord",
    "MetricsWriter",
    "NonFiniteLossError",
    "Ramp",
    "TensorBoard",
    "TrainProgress",
    "TrainRecord",
    "TwoStageRecord",
    "WeightsAndBiases",
    "gamma_gradient",
    "hinge_gradient",
    "hinge_sgd",
    "joint",
    "load_checkpoint",
    "set_gamma",
    "start_gamma",
    "train",
    "two_stage",
]
