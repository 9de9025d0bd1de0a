"""Fitting a model's weights over many tasks.

Each way to train takes a model, a prompt distribution and settings, fits the model in place, and returns it with a
record: `two_stage` and `joint` for the one-layer Mamba, `hinge_sgd` for one-layer attention, `train` for deep models.
"""

from iclab.pretraining.algorithm1.joint import JointRecord, joint
from iclab.pretraining.algorithm1.stage_one import GammaGradient, gamma_gradient
from iclab.pretraining.algorithm1.two_stage import TwoStageRecord, set_gamma, start_gamma, two_stage
from iclab.pretraining.failures import NonFiniteLossError
from iclab.pretraining.hinge.gradient import hinge_gradient
from iclab.pretraining.hinge.record import HingeRecord, HingeWindow
from iclab.pretraining.hinge.sgd import hinge_sgd
from iclab.pretraining.record import Record, TrainProgress
from iclab.pretraining.trainer.checkpoint_folder import load_checkpoint
from iclab.pretraining.trainer.record import TrainRecord
from iclab.pretraining.trainer.train import train
from iclab.pretraining.trainer.writers import MetricsWriter, TensorBoard, WeightsAndBiases
from iclab.settings import Curriculum, HingeSettings, JointSettings, Ramp, TrainSettings, TwoStageSettings

__all__ = [
    "Curriculum",
    "GammaGradient",
    "HingeRecord",
    "HingeSettings",
    "HingeWindow",
    "JointRecord",
    "JointSettings",
    "MetricsWriter",
    "NonFiniteLossError",
    "Ramp",
    "Record",
    "TensorBoard",
    "TrainProgress",
    "TrainRecord",
    "TrainSettings",
    "TwoStageRecord",
    "TwoStageSettings",
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
