"""Laws and prompts that the tests of prompts with outliers share."""

import torch

from iclab.prompts import OutlierClassification, OutlierPrompts, Stream

STREAM = Stream(23).child("outlier test")
COEFFICIENTS = [(0.7, 0.6, -0.4), (0.4, 0.7, -0.6), (-0.7, 0.5, 0.5)]
TRAINING = OutlierClassification(outlier_fraction=0.4, tasks=18, seed=3)
TEST = TRAINING.replace(
    tasks="all",
    outlier_fraction=0.35,
    outlier_size=4.0,
    irrelevant_range=2.0,
    label_rule="flipped",
    coefficients=COEFFICIENTS,
    orthogonal=1.5,
    sampling="fixed_count",
    input_noise=0.1,
)


def draw(
    distribution: OutlierClassification = TRAINING, count: int = 40, examples: int = 7, queries: int = 2
) -> OutlierPrompts:
    return distribution.sample(STREAM, count, examples, queries, dtype=torch.float64)


def clean_targets(p: OutlierPrompts) -> torch.Tensor:
    assert p.targets is not None
    return p.targets
