"""The best fixed head: against the closed form where the state is Gaussian, and better than any other fixed head."""

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.evaluation import HeadReadout, error_curve
from iclab.links import make_link
from iclab.models import OneLayerMamba
from iclab.prompts import SingleIndex, Stream

STREAM = Stream(7)


def _error(oracle: HeadReadout, distribution: SingleIndex, count: int) -> float:
    prompts = distribution.sample(STREAM.child("test"), 600, count, 16)
    return float(error_curve({"o": oracle}, prompts, [count])["squared_error"]["o"].values[0])


def test_linear_link_with_linear_gate_is_the_best_linear_prediction() -> None:
    """For y = <beta, x> and no gate the state averages x <x, beta>, and with r = 1 the readout is a known shrinkage."""
    distribution = SingleIndex(4, 1, "he1")
    count = 20
    oracle = HeadReadout(OneLayerMamba(4, 1, gate="linear"), distribution, STREAM.child("calibration"), [count], 2048)
    # h = x beta m with m the mean of N squared normals, so E[beta x | h] is h times about N/(N + 2) = E[h y]/E[h^2].
    best_linear = 1 - 1 / (1 + 2 / count)
    error = _error(oracle, distribution, count)
    assert 0.5 * best_linear < error < 1.1 * best_linear + 0.01


def test_no_other_fixed_head_does_better() -> None:
    distribution = SingleIndex(6, 2, make_link("2*exp(-3/2)*sin(z) - sin(2*z)", standardise=True))
    model = OneLayerMamba(6, 1, rho=0.3, b=-15.0)
    oracle = HeadReadout(model, distribution, STREAM.child("calibration"), [256], 2048)
    error = _error(oracle, distribution, 256)
    prompts = distribution.sample(STREAM.child("test"), 600, 256, 16)
    h = oracle._read(prompts)
    scale = np.abs(h).mean()
    for shape in (np.tanh, np.sin, lambda u: u / (1 + u * u), lambda u: u**3 * np.exp(-u * u)):
        for width in (0.3, 1.0, 3.0):
            feature = shape(width * h / scale).ravel()
            target = prompts.query_targets.double().numpy().ravel()
            coefficient = feature @ target / (feature @ feature)
            assert ((target - coefficient * feature) ** 2).mean() > error - 0.01
    assert error < 0.75


def test_it_knows_nothing_of_the_queries_labels_and_starts_at_zero() -> None:
    distribution = SingleIndex(5, 2, "tanh")
    oracle = HeadReadout(OneLayerMamba(5, 1, rho=1.0, b=-3.0), distribution, STREAM.child("calibration"), [32], 64)
    assert torch.count_nonzero(oracle.predict(distribution.sample(STREAM, 8, 0, 3))) == 0
    with pytest.raises(InputError, match="rotation"):
        HeadReadout(OneLayerMamba(5, 1), SingleIndex(5, 2, rotation="random"), STREAM, [8])
    with pytest.raises(InputError, match="num_examples is empty"):
        HeadReadout(OneLayerMamba(5, 1), distribution, STREAM, [])
