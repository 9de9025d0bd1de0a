"""The tail of the state's energy: closed forms, simulation at one example, and where fourth moments end."""

import numpy as np
import pytest
import torch

from iclab.claims.coverage import COVERAGE, has_light_tail, judge_coverage
from iclab.claims.oh2025 import MOMENTS, SEEN
from iclab.claims.rules import SEEDS
from iclab.errors import InputError
from iclab.evaluation import alignment
from iclab.models import OneLayerMamba
from iclab.prompts import SingleIndex, Stream
from iclab.theory import GateMoments, tail_ratio


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_linear_attention_on_a_linear_link_has_a_closed_form(dim):
    # A = z: E z^4 (z^2 + |w|^2)^2 = 105 + 30 s + 3 s (s + 2) and E z^2 (z^2 + |w|^2) = 3 + s, with s = dim - 1.
    s = dim - 1
    one = GateMoments([0, 1], num_examples=1, gate="linear")
    assert tail_ratio(one, dim) == pytest.approx((105 + 30 * s + 3 * s * (s + 2)) / (3 + s) ** 2, rel=1e-12)
    # At larger N the energy has the squared mean too: ((3 + s) + (N - 1)) / N.
    assert tail_ratio(one.at(10), dim) == pytest.approx(
        (105 + 30 * s + 3 * s * (s + 2)) / 10**3 / ((3 + s + 9) / 10) ** 2, rel=1e-12
    )


def test_degree_2_in_one_dimension_is_the_fourth_moment_of_h2():
    # dim = 1: phi_2 = h_2(z), A = h_2(z): E h_2^8 / (E h_2^4)^2 with E h_2^4 = 15.
    z, w = np.polynomial.hermite_e.hermegauss(40)
    h2 = (z * z - 1) / 2**0.5
    eighth = float((w * h2**8).sum() / w.sum())
    assert tail_ratio(GateMoments("he2", num_examples=1, gate="linear"), 1, 2) == pytest.approx(
        eighth / 15**2, rel=1e-12
    )


def test_one_example_has_the_whole_fourth_moment():
    prompts = SingleIndex(4, 2, "tanh", noise=0.3, seed=1)
    batch = prompts.sample(Stream(0), 200_000, 1, 0, dtype=torch.float64)
    model = OneLayerMamba(4, 1, rho=1.0, b=-1.0)
    found = alignment(model, batch, prompts.support)
    moments = GateMoments(prompts.link, 0.3, 1.0, model.bias, 1)
    for degree in (1, 2):
        energy = found.energy[degree - 1]
        ratio = (energy**2).mean() / energy.mean() ** 2
        assert tail_ratio(moments, 2, degree) == pytest.approx(ratio, rel=0.1)


def test_decay_forgets_fourth_powers_too():
    # Retention lambda on a linear link: sum_j lambda^(4 (N - j)).
    moments = GateMoments([0, 1], num_examples=3, gate="retention", retention=0.5)
    weights = 0.5 ** np.arange(3)
    energy = (3 * (weights**2).sum() + (weights.sum() ** 2 - (weights**2).sum())) / 9
    assert tail_ratio(moments, 1) == pytest.approx(105 * (weights**4).sum() / 81 / energy**2, rel=1e-12)


def test_fourth_moments_of_a_tilted_quadratic_need_twice_the_temperature():
    # y = (z^2 - 1)/sqrt 2: second moments for rho > 4/sqrt 2 = 2.83, fourth for rho > 5.66.
    with pytest.raises(InputError):
        tail_ratio(GateMoments("he2", rho=2.7, gate="exp"), 2)
    assert tail_ratio(GateMoments("he2", rho=5.5, gate="exp"), 2) == float("inf")
    assert np.isfinite(tail_ratio(GateMoments("he2", rho=6.5, gate="exp"), 2))
    assert tail_ratio(GateMoments("he2", num_examples=0, gate="linear"), 2) == 0.0
    with pytest.raises(InputError, match="degree is 3"):
        tail_ratio(GateMoments("he2", gate="linear"), 2, 3)


def test_a_sample_sees_a_tail_of_a_tenth_of_its_prompts():
    assert has_light_tail(25.6, 256)
    assert not has_light_tail(25.7, 256)
    assert not has_light_tail(float("inf"), 10**9)
    assert not has_light_tail(float("nan"), 10**9)


@pytest.mark.parametrize(
    ("points", "outside", "far", "seeds", "verdict"),
    [
        (16, 2, 0, 5, "supported"),  # 95 % of binomial draws at 5 % of 16 give at most 2
        (16, 3, 0, 5, "undecided"),
        (16, 9, 0, 5, "contradicted"),
        (16, 1, 1, 5, "contradicted"),
        (16, 0, 0, 4, "undecided"),
        (0, 0, 0, 5, "not applicable"),
    ],
)
def test_coverage_is_judged_by_one_rule(points, outside, far, seeds, verdict):
    found = judge_coverage(MOMENTS, points, outside, far, num_seeds=seeds)
    assert (found.verdict, found.rules) == (verdict, (SEEDS, COVERAGE))
    assert found.condition == (SEEN if verdict == "not applicable" else "")
