"""Kernels against closed forms, and the errors of kernel ridge."""

import math
from fractions import Fraction as F

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.estimators import KERNELS, RBF, ArcCosine, KernelRidge, Laplace, NearestNeighbours, Polynomial, tune
from iclab.prompts import Prompts, SingleIndex, Stream


def points(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor([rows], dtype=torch.float64)


def value(kernel, left: tuple[float, ...], right: tuple[float, ...]) -> float:
    return float(kernel(points(left), points(right)))


def test_kernels_at_hand_computed_points():
    assert value(RBF(2.0), (0, 0), (3, 4)) == pytest.approx(math.exp(-25 / 8), rel=1e-14)
    assert value(RBF(), (0, 0), (3, 4)) == pytest.approx(math.exp(-25 / 4), rel=1e-14)
    assert value(Laplace(2.0), (0, 0), (3, -4)) == pytest.approx(math.exp(-7 / 2), rel=1e-14)
    assert value(Laplace(), (0, 0), (3, -4)) == pytest.approx(math.exp(-7 / 2), rel=1e-14)
    assert value(Polynomial(2, 0.5, 1.0), (1, 2), (3, 4)) == pytest.approx(6.5**2, rel=1e-14)
    assert value(Polynomial(), (1, 2), (3, 4)) == pytest.approx(6.5**3, rel=1e-14)


def test_arc_cosine_at_angles_0_90_and_180_and_at_zero():
    assert value(ArcCosine(), (3, 4), (3, 4)) == pytest.approx(25, rel=1e-14)
    assert value(ArcCosine(), (2, 0), (0, 3)) == pytest.approx(6 / math.pi, rel=1e-14)
    assert value(ArcCosine(), (2, 0), (-3, 0)) == pytest.approx(0, abs=1e-14)
    assert value(ArcCosine(), (0, 0), (1, 2)) == 0


def test_arc_cosine_is_twice_the_product_of_relus_under_a_gaussian():
    generator = torch.Generator().manual_seed(0)
    x, y = points((1.0, 0.5, -0.3)), points((0.2, 1.1, 0.8))
    w = torch.randn(400_000, 3, generator=generator, dtype=torch.float64)
    products = 2 * (w @ x[0, 0]).relu() * (w @ y[0, 0]).relu()
    error = float(products.std()) / math.sqrt(len(w))
    assert float(ArcCosine()(x, y)) == pytest.approx(float(products.mean()), abs=4 * error)


def test_rbf_keeps_close_points_far_from_the_origin_apart():
    assert value(RBF(1e-3), (1e6,), (1e6 + 1e-3,)) == pytest.approx(math.exp(-0.5), rel=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_repeated_points_are_averaged_and_never_crash(kernel):
    prompts = Prompts.from_arrays([[1.0, 2.0]] * 4, [1.0, 2.0, 3.0, 4.0], [[1.0, 2.0]])
    k = value(KernelRidge(kernel).kernel, (1, 2), (1, 2))
    expected = k * 10 / (4 * k + 0.5)
    assert float(KernelRidge(kernel, 0.5).predict(prompts)) == pytest.approx(expected, rel=1e-12)


def test_a_penalty_lost_in_rounding_is_named():
    prompts = Prompts.from_arrays([[1.0, 2.0]] * 4, [1.0, 2.0, 3.0, 4.0], [[1.0, 2.0]])
    with pytest.raises(InputError, match=r"first 2 examples is singular .* rbf\(1\), 1e-20: raise the penalty"):
        KernelRidge("rbf", 1e-20, bandwidth=1).predict(prompts)


def _exact_polynomial_ridge(x: list[F], y: list[F], query: F, penalty: F) -> float:
    """``k(q, X) (K + penalty I)^{-1} y`` in rational numbers, for the kernel ``(1 + x x')^3``."""
    rows = [[(1 + a * b) ** 3 + (penalty if i == j else 0) for j, b in enumerate(x)] for i, a in enumerate(x)]
    system = [[*row, value] for row, value in zip(rows, y, strict=True)]
    for i in range(len(x)):
        pivot = system[i][i]  # positive: the matrix is positive definite
        system[i] = [entry / pivot for entry in system[i]]
        for j in range(len(x)):
            if j != i:
                system[j] = [a - system[j][i] * b for a, b in zip(system[j], system[i], strict=True)]
    return float(sum((1 + query * a) ** 3 * row[-1] for a, row in zip(x, system, strict=True)))


@pytest.mark.parametrize(
    ("penalty", "error"),
    [(2.0**-7, 1e-12), (2.0**-30, 1e-6), (2.0**-40, 1e-3), (2.0**-50, None), (2.0**-55, None)],
)
def test_a_solution_has_its_digits_or_is_refused(penalty, error):
    """Eight inputs of a kernel of rank four, all dyadic, so that rational arithmetic solves the very same system."""
    x, y = [F(k, 8) for k in range(-4, 4)], [F(k * k % 5, 4) for k in range(8)]
    queries = [F(3, 16), F(-5, 16)]
    exact = np.array([_exact_polynomial_ridge(x, y, q, F(penalty)) for q in queries])
    prompts = Prompts.from_arrays(
        [[[float(v)] for v in x]], [[float(v) for v in y]], [[[float(q)] for q in queries]], dtype=torch.float64
    )
    ridge = KernelRidge("polynomial", penalty, degree=3, gamma=1.0)
    if error is None:
        with pytest.raises(InputError, match=r"fewer than two digits .*: raise the penalty|is singular"):
            ridge.predict(prompts)
    else:
        np.testing.assert_allclose(ridge.predict(prompts)[0].numpy(), exact, rtol=error)


def test_a_tuning_grid_with_a_penalty_below_rounding_is_refused():
    prompts = SingleIndex(2, 1, "tanh", seed=0).sample(Stream(0), 2, 32, 1)
    with pytest.raises(InputError, match="1e-17: raise the penalty"):
        tune([KernelRidge("rbf", 1e-2), KernelRidge("rbf", 1e-17, bandwidth=8)], prompts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"penalty": 0.0}, "penalty is 0.0; expected a finite number > 0"),
        ({"penalty": "x"}, "penalty is 'x'"),
        ({"kernel": "gauss"}, "the kernel is 'gauss'; expected one of rbf, laplace, polynomial, arc_cosine"),
        ({"bandwidth": -1}, "bandwidth is -1.0"),
        ({"degree": 2}, "the kernel 'rbf' has no option 'degree'; expected bandwidth"),
        ({"kernel": "arc_cosine", "bandwidth": 1}, "expected no options"),
        ({"kernel": RBF(1), "bandwidth": 1}, "beside a ready kernel"),
        ({"kernel": "polynomial", "degree": 1.5}, "degree is 1.5"),
        ({"kernel": "polynomial", "gamma": 0}, "gamma is 0.0"),
        ({"kernel": "polynomial", "coef0": -1}, "coef0 is -1"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        KernelRidge(**arguments)


def test_nearest_neighbours_prefers_the_earlier_of_equally_distant_examples():
    prompts = Prompts.from_arrays([[1.0], [-1.0], [1.0], [0.5]], [1.0, 2.0, 4.0, 8.0], [[0.0]])
    assert NearestNeighbours(2).predict_at(prompts, [1, 2, 3, 4]).flatten().tolist() == [1.0, 1.5, 1.5, 4.5]
    assert NearestNeighbours(10).predict(prompts).item() == pytest.approx(15 / 4)
    # Example 2 sits on example 0; example 3 is nearest to examples 0 and 2.
    assert NearestNeighbours(1).predict_prefixes(prompts).tolist() == [[0.0, 1.0, 1.0, 1.0]]
    with pytest.raises(InputError, match="num_neighbours is 0"):
        NearestNeighbours(0)
