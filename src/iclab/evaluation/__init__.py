"""Error curves, paired intervals, scaling slopes and probes."""

from iclab.evaluation.crossings import Crossing, CrossingSlope, crossing_slope, examples_to_reach, mean_crossing
from iclab.evaluation.curve import METRICS, Curve, error_curve, predict_at, predict_blind, sign_errors
from iclab.evaluation.head_oracle import HeadReadout
from iclab.evaluation.intervals import Interval, interval
from iclab.evaluation.measurement import STATISTICS, Measurement, pooled_value
from iclab.evaluation.oracles import DirectionReadout, readout_error
from iclab.evaluation.outlier_attack import random_outliers, worst_outliers
from iclab.evaluation.outlier_margins import WorstOutliers
from iclab.evaluation.probes import Alignment, alignment, support_auc
from iclab.evaluation.scaling import Slope, scaling_slope

__all__ = [
    "METRICS",
    "STATISTICS",
    "Alignment",
    "Crossing",
    "CrossingSlope",
    "Curve",
    "DirectionReadout",
    "HeadReadout",
    "Interval",
    "Measurement",
    "Slope",
    "WorstOutliers",
    "alignment",
    "crossing_slope",
    "error_curve",
    "examples_to_reach",
    "interval",
    "mean_crossing",
    "pooled_value",
    "predict_at",
    "predict_blind",
    "random_outliers",
    "readout_error",
    "scaling_slope",
    "sign_errors",
    "support_auc",
    "worst_outliers",
]
