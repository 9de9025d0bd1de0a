"""The oracle readout of a direction on the very tasks it was calibrated on: only fresh queries are left to chance."""

import numpy as np
import pytest
import torch

from iclab.evaluation import DirectionReadout, interval
from iclab.models import OneLayerMamba
from iclab.prompts import Prompts, SingleIndex, Stream

STREAM = Stream(5).child("readout")
TASKS, QUERIES = 256, 3000


def with_queries(distribution: SingleIndex, context: Prompts) -> Prompts:
    """The same contexts with many fresh queries."""
    assert context.directions is not None
    shape = (context.batch_size, QUERIES, distribution.ambient_dim)
    x = torch.randn(shape, generator=STREAM.at(1), dtype=torch.float64)
    y = distribution.link((x @ context.directions[:, :, None])[..., 0])
    inputs, labels = torch.cat([context.inputs, x], 1), torch.cat([context.labels, y], 1)
    return Prompts(inputs, labels, context.num_examples, labels, context.directions)


@pytest.mark.parametrize("name", ["tanh", "he3", "relu", "he2(z)+he3(z)", "3+sin(z)"])
def test_the_measured_error_is_the_expected_one(name: str) -> None:
    distribution = SingleIndex(5, 3, name, 0.2)
    model = OneLayerMamba(5, 2, gate="mamba", rho=0.5, b=-5.0, dtype=torch.float64)
    count = 12
    # Drawn as the calibration draws them, in the same dtype: the same contexts.
    prompts = with_queries(distribution, distribution.sample(STREAM.child("tasks"), TASKS, count, 0).to(torch.float64))
    oracle = DirectionReadout(model, distribution, STREAM.child("tasks"), [count], num_tasks=TASKS)
    predicted, target = (v.numpy() - distribution.link.mean for v in (oracle.predict(prompts), prompts.query_targets))
    # The error less Var g: (g - E g)^2 is heavy-tailed, the same for every readout, and known on average.
    excess = predicted**2 - 2 * predicted * target
    expected = oracle.expected_error(count) - distribution.link.variance
    # Given its tasks, the mean over queries is the conditional expectation plus sampling noise within prompts.
    error = np.sqrt(excess.var(1).mean() / excess.size)
    assert abs(excess.mean() - expected) < 4.5 * error
    # Tight enough to tell apart a readout that trusts the direction less: squared moments would add this much.
    moments = oracle.moments[count]
    assert float((oracle.coefficients**2 * (moments - moments**2) ** 2).sum()) > 7 * error


@pytest.mark.parametrize("statistic", ["mean", "alignment"])
def test_prompts_are_resampled_within_seeds(statistic: str) -> None:
    """Seeds that agree in every number: resampling seeds alone would give an interval without width."""
    rng = np.random.default_rng(0)
    one = 2 + rng.normal(size=6)
    block = one[None] if statistic == "mean" else np.stack([one, one**2 + 4])
    seeds = 40
    band = interval([block] * seeds, statistic, resamples=2000)
    if statistic == "mean":
        spread = one.std()
    else:
        # Delta method for mean(a)/sqrt(mean(e)).
        a, e = block
        spread = (a / a.mean() - e / (2 * e.mean())).std() * a.mean() / e.mean() ** 0.5
    # A mean of 40 independent resamples of 6 prompts.
    assert band.high - band.low == pytest.approx(2 * 1.96 * spread / (6 * seeds) ** 0.5, rel=0.2)
