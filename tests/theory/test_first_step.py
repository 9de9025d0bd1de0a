"""The sign and size of the first gradient step against its exact value at a small start."""

import numpy as np
import pytest
import torch

from iclab.links import make_link
from iclab.models import OneLayerMamba, block_degrees
from iclab.pretraining import gamma_gradient, start_gamma
from iclab.prompts import SingleIndex, Stream
from iclab.theory import GateMoments, first_step

DIM, INTRINSIC, LENGTH, TASKS = 8, 3, 64, 24_000


@pytest.mark.parametrize(
    ("name", "rho", "b"),
    [("tanh", 1.0, -3.0), ("cos(z)", 0.5, -5.0), ("sin(z) + cos(z)", 0.5, -5.0), ("abs", 1.0, -4.0)],
)
def test_summed_gradient_of_each_degree_is_the_exact_one(name: str, rho: float, b: float) -> None:
    link = make_link(name, standardise=True)
    prompts = SingleIndex(DIM, INTRINSIC, link, 0.1)
    model = OneLayerMamba(DIM, 800, rho=rho, b=b, dtype=torch.float64)
    value = start_gamma(model, prompts, Stream(0), LENGTH, 0.02)
    # The head's law at its exact limit: every bias with both signs. A random head of finite width has f'(0) != 0.
    grid = (torch.arange(400, dtype=torch.float64) + 0.5) / 200 - 1
    model.a1.copy_(torch.cat([grid, grid]))
    model.v.copy_(torch.cat([torch.ones(400), -torch.ones(400)]))
    gradient = gamma_gradient(model, prompts, Stream(0).child("stage1"), TASKS, LENGTH)
    degree = block_degrees(model.embedding, DIM)
    exact = first_step(GateMoments(link, 0.1, rho, b, LENGTH), DIM).sum(1)
    measured = np.array([float(gradient.mean[degree == k].sum()) / value for k in range(3)])
    # Errors of coordinates are taken as fully dependent within a degree: an upper bound of the sum's error.
    error = np.array([float(gradient.standard_error[degree == k].sum()) / value for k in range(3)])
    assert (np.abs(measured - exact) < 4 * error).all()
    strong = np.abs(exact) > 8 * error
    assert strong.any()
    assert (np.sign(measured) == np.sign(exact))[strong].all()


def test_label_term_outweighs_the_quadratic_term_on_the_main_link() -> None:
    """Information exponent 3 does not blind the label term: degree-1 and degree-2 coordinates have a degree-3 "
    "product."""
    link = make_link("2*exp(-3/2)*sin(z) - sin(2*z)", standardise=True)
    quadratic, label = first_step(GateMoments(link, 0.0, 0.3, -15.0, 512), 16)[1]
    assert quadratic > 0 > label
    assert -label > 3 * quadratic


@pytest.mark.parametrize(("name", "dim", "length"), [("exp(z/4)", 6, 4), ("1 + tanh(z) + cos(z)", 5, 6)])
def test_both_terms_on_a_link_with_a_mean_and_both_low_degrees(name: str, dim: int, length: int) -> None:
    """Every part of the label term counts here: none of E g, E g z and E g z^2 vanishes. Leaving out that of the pairs
    of orthogonal features, or that of degree 2 in them alone, would be off by 7 to 50 standard errors at degree 2."""
    tasks, rho, b = 12_000, 2.0, -1.0
    distribution = SingleIndex(dim, 2, make_link(name), 0.3)
    model = OneLayerMamba(dim, 1, rho=rho, b=b, dtype=torch.float64)
    degree = block_degrees(model.embedding, dim)
    prompts = distribution.sample(Stream(2).child("first step"), tasks, length, 64, dtype=torch.float64)
    state = model.features(prompts)
    h = []
    for k in range(3):
        model.gamma.data.copy_((degree == k).double())
        h.append(model.read(state, prompts.queries).detach())
    total = torch.stack(h).sum(0)
    exact = first_step(GateMoments(distribution.link, 0.3, rho, b, length), dim)
    for k in range(3):
        quadratic = (h[k] ** 2).mean(1).numpy() / 8
        label = -(prompts.query_targets * total * h[k]).mean(1).numpy() / 2
        for column, samples in enumerate((quadratic, label)):
            error = samples.std() / tasks**0.5
            assert error < 0.03 * abs(exact[k, column])
            assert abs(samples.mean() - exact[k, column]) < 4 * error
