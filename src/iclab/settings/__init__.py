"""Settings of the ways to train, each defined once: names, defaults, limits and meanings.

What trains takes them (`iclab.pretraining`), and sections of configuration are derived from them
(`iclab.experiments.sections.derived`), so they load neither torch nor pydantic.
"""

from iclab.settings.algorithm1 import JointSettings, TwoStageSettings
from iclab.settings.curriculum import Curriculum, Ramp
from iclab.settings.hinge import HingeSettings
from iclab.settings.schedule import LearningRate
from iclab.settings.train import TrainSettings

__all__ = [
    "Curriculum",
    "HingeSettings",
    "JointSettings",
    "LearningRate",
    "Ramp",
    "TrainSettings",
    "TwoStageSettings",
]
