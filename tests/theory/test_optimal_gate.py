"""The optimal gate: no gate of a search does better, exactly and in simulation."""

import numpy as np
import pytest
from scipy.special import log_expit

from iclab.errors import InputError
from iclab.links import make_link
from iclab.theory import GateMoments, optimal_gate
from iclab.theory.optimal_gate import optimal_gate_curve

CASES = [
    ("he3", 256, 4, 0.1, True, 1),
    ("he3", 4096, 4, 0.1, False, 1),
    ("2*exp(-3/2)*sin(z)-sin(2*z)", 512, 2, 0.0, True, 1),
    ("he2", 512, 4, 0.1, True, 2),
    ("sign", 100, 3, 0.5, True, 1),
]


def best_label_square(link: str, noise: float) -> float:
    g = make_link(link)
    return g.mean**2 + g.variance + noise**2


@pytest.mark.parametrize("scale", ["0.01", "1000"])
def test_the_best_gate_does_not_depend_on_the_size_of_the_labels(scale):
    plain, scaled = optimal_gate("he3", 1024, 4), optimal_gate(f"{scale}*he3(z)", 1024, 4)
    assert scaled.alignment == pytest.approx(plain.alignment, abs=1e-5)
    assert scaled.rho == pytest.approx(float(scale) * plain.rho, rel=0.05)
    assert not scaled.at_edge


def test_an_optimum_at_the_end_of_the_range_says_so():
    # For the even He_2 no gate has a degree-1 signal; for exp the best gate is shallower than the range allows.
    assert optimal_gate("exp(z)", 256, 4).at_edge


@pytest.mark.parametrize(("link", "count", "r", "noise", "decay", "degree"), CASES)
def test_no_gate_of_a_random_search_does_better(link, count, r, noise, decay, degree):
    best = optimal_gate(link, count, r, noise=noise, decay=decay, degree=degree)
    exact = GateMoments(link, noise, best.rho, best.b, count, decay).alignment(r, degree)
    assert best.alignment == exact
    assert (best.num_examples, best.intrinsic_dim, best.degree) == (count, r, degree)
    size = float(np.sqrt(best_label_square(link, noise)))
    assert 0.0499 * size <= best.rho <= 200.0001 * size
    assert -25 <= best.b <= 5  # the ranges that its docstring names
    rng = np.random.default_rng(0)
    for _ in range(150):
        rho, b = float(size * np.exp(rng.uniform(np.log(0.05), np.log(200)))), float(rng.uniform(-25, 5))
        other = GateMoments(link, noise, rho, b, count, decay).alignment(r, degree)
        assert abs(other) <= abs(exact) + 1e-4, (rho, b)
    # Nor does a step in any direction from it.
    for scale, shift in [(0.9, 0), (1.1, 0), (1, -0.3), (1, 0.3)]:
        rho, b = float(np.clip(best.rho * scale, 0.05 * size, 200 * size)), float(np.clip(best.b + shift, -25, 5))
        assert abs(GateMoments(link, noise, rho, b, count, decay).alignment(r, degree)) <= abs(exact) + 1e-6


@pytest.mark.parametrize("decay", [True, False])
def test_more_examples_never_hurt_the_best_gate(decay):
    curve = optimal_gate_curve("he3", [16, 64, 256, 1024, 4096, 16384], 4, noise=0.1, decay=decay)
    values = np.abs([gate.alignment for gate in curve])
    assert bool((np.diff(values) > 0).all())
    # Forgetting less as the prompt grows is what makes the best gate better.
    if decay:
        forgotten = [GateMoments("he3", 0.1, g.rho, g.b).token.loss for g in curve]
        assert bool((np.diff(forgotten) < 0).all())


@pytest.mark.parametrize("link", ["sin(2*z) - 2*exp(-2)*z", "he5"])
def test_what_is_promised_is_what_a_simulation_gives(link):
    """Two links that the ranges of the search were not chosen on, both blind to linear attention."""
    count, r = 400, 3
    best = optimal_gate(link, count, r, noise=0.1)
    values = {
        "sin(2*z) - 2*exp(-2)*z": lambda z: np.sin(2 * z) - 2 * np.exp(-2) * z,
        "he5": lambda z: (z**5 - 10 * z**3 + 15 * z) / np.sqrt(120),
    }[link]
    rng = np.random.default_rng(3)
    projections, energies = [], []
    for _ in range(5):
        x = rng.normal(size=(2000, count, r))
        y = values(x[:, :, 0]) + 0.1 * rng.choice([-1.0, 1.0], size=(2000, count))
        u = y / best.rho + best.b
        keep = log_expit(-u)
        later = np.flip(np.cumsum(np.flip(keep, 1), 1), 1) - keep
        s = np.einsum("pn,pnd->pd", np.exp(log_expit(u) - log_expit(best.b) + later) * y, x)
        projections.append(s[:, 0])
        energies.append((s**2).sum(1))
    a, e = np.concatenate(projections), np.concatenate(energies)
    pooled = a.mean() / np.sqrt(e.mean())
    error = abs(pooled) * (a / a.mean() - e / (2 * e.mean())).std() / len(a) ** 0.5
    assert abs(pooled - best.alignment) < 5 * error
    assert abs(best.alignment) > 0.3
    assert abs(GateMoments(link, 0.1, num_examples=count, gate="linear").alignment(r)) < 1e-9


def test_wrong_arguments_are_refused():
    with pytest.raises(InputError, match="num_examples"):
        optimal_gate("he3", 0, 4)
    with pytest.raises(InputError, match="num_examples is empty"):
        optimal_gate_curve("he3", [], 4)
    with pytest.raises(InputError, match="dim"):
        optimal_gate("he3", 10, 0)
    with pytest.raises(InputError, match="degree"):
        optimal_gate("he3", 10, 2, degree=0)


def test_an_alignment_that_is_zero_is_exactly_zero():
    even = GateMoments("abs", 0.0, 0.5, -3.0, 64)
    assert even.alignment(4, 1) == 0.0
    assert optimal_gate("abs", 256, 4).alignment == 0.0
    assert GateMoments("abs", 0.0, 0.5, -3.0, 64).alignment(4, 2) != 0.0
