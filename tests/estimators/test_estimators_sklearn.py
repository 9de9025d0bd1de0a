"""Every prefix of every prompt against scikit-learn."""

import numpy as np
import pytest
import torch

from iclab.estimators import (
    KERNELS,
    RBF,
    ArcCosine,
    Estimator,
    KernelRidge,
    Laplace,
    LeastSquares,
    NearestNeighbours,
    Polynomial,
    Ridge,
)
from iclab.prompts import Prompts, SingleIndex, Stream

pytest.importorskip("sklearn")
from sklearn import kernel_ridge, linear_model, neighbors
from sklearn.metrics import pairwise

SIZES = [(3, 21, 5), (2, 9, 12), (1, 6, 1)]  # prompts, examples, d: more examples than d, fewer, and d = 1


def draw(batch: int, count: int, dim: int) -> Prompts:
    return SingleIndex(dim, dim, "he3", noise=0.2).sample(Stream(3), batch, count, 4, dtype=torch.float64)


def check(learner: Estimator, prompts: Prompts, fit_and_predict) -> None:
    """``fit_and_predict(x, y, queries)`` in NumPy must agree at every prefix, along the prompt and at the queries."""
    x, y = prompts.inputs.numpy(), prompts.labels.numpy()
    count = prompts.num_examples
    along = learner.predict_prefixes(prompts).numpy()
    several = learner.predict_at(prompts, range(1, count + 1)).numpy()
    for b in range(prompts.batch_size):
        for n in range(1, count + 1):
            expected = fit_and_predict(x[b, :n], y[b, :n], x[b, n:])
            np.testing.assert_allclose(several[n - 1, b], expected[count - n :], rtol=1e-8, atol=1e-8)
            if n < count:
                np.testing.assert_allclose(along[b, n], expected[0], rtol=1e-8, atol=1e-8)


def arc_cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(y, axis=1)
    angle = np.arccos(np.clip(pairwise.cosine_similarity(x, y), -1, 1))
    return norms * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi


PEERS = {
    "rbf": (RBF(1.7), lambda x, y: pairwise.rbf_kernel(x, y, gamma=1 / (2 * 1.7**2))),
    "laplace": (Laplace(2.5), lambda x, y: pairwise.laplacian_kernel(x, y, gamma=1 / 2.5)),
    "polynomial": (
        Polynomial(degree=2, gamma=0.7, coef0=0.5),
        lambda x, y: pairwise.polynomial_kernel(x, y, degree=2, gamma=0.7, coef0=0.5),
    ),
    "arc_cosine": (ArcCosine(), arc_cosine),
}
DEFAULTS = {
    "rbf": lambda x, y: pairwise.rbf_kernel(x, y, gamma=1 / (2 * x.shape[1])),
    "laplace": pairwise.laplacian_kernel,
    "polynomial": pairwise.polynomial_kernel,
    "arc_cosine": arc_cosine,
}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_ridge(kernel, size):
    set_by_hand, matrix = PEERS[kernel]
    for learner, function in (
        (KernelRidge(set_by_hand, 0.05), matrix),
        (KernelRidge(kernel, 0.05), DEFAULTS[kernel]),
    ):

        def peer(x, y, queries, function=function):
            model = kernel_ridge.KernelRidge(alpha=0.05, kernel="precomputed").fit(function(x, x), y)
            return model.predict(function(queries, x))

        check(learner, draw(*size), peer)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("penalty", [1e-6, 0.3, 50.0])
def test_ridge(penalty, size):
    check(
        Ridge(penalty),
        draw(*size),
        lambda x, y, q: linear_model.Ridge(alpha=penalty, fit_intercept=False).fit(x, y).predict(q),
    )


@pytest.mark.parametrize("size", [*SIZES, (2, 130, 7)], ids=str)
def test_least_squares(size):
    check(
        LeastSquares(),
        draw(*size),
        lambda x, y, q: linear_model.LinearRegression(fit_intercept=False).fit(x, y).predict(q),
    )


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("neighbours", [1, 4, 50])
def test_nearest_neighbours(neighbours, size):
    def peer(x, y, queries):
        model = neighbors.KNeighborsRegressor(min(neighbours, len(x)), algorithm="brute")
        return model.fit(x, y).predict(queries)

    check(NearestNeighbours(neighbours), draw(*size), peer)
