"""Learners without pretraining: what can be predicted from the prompt alone."""

from iclab.estimators.base import CausalLearner, Learner
from iclab.estimators.estimator import Estimator
from iclab.estimators.kernel_ridge import KernelRidge
from iclab.estimators.kernels import KERNELS, RBF, ArcCosine, Kernel, Laplace, Polynomial
from iclab.estimators.least_squares import LeastSquares
from iclab.estimators.nearest_neighbours import NearestNeighbours
from iclab.estimators.ridge import Ridge
from iclab.estimators.tuning import Tuned, TuningRecord, tune
from iclab.estimators.zero import Zero

ESTIMATORS: dict[str, type[Estimator]] = {
    "zero": Zero,
    "least_squares": LeastSquares,
    "ridge": Ridge,
    "kernel_ridge": KernelRidge,
    "nearest_neighbours": NearestNeighbours,
}
"""Estimators by short name. A new one is one file and one line here."""

__all__ = [
    "ESTIMATORS",
    "KERNELS",
    "RBF",
    "ArcCosine",
    "CausalLearner",
    "Estimator",
    "Kernel",
    "KernelRidge",
    "Laplace",
    "Learner",
    "LeastSquares",
    "NearestNeighbours",
    "Polynomial",
    "Ridge",
    "Tuned",
    "TuningRecord",
    "Zero",
    "tune",
]
