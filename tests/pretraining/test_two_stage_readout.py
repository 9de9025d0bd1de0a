"""Stage II: ridge regression from streamed statistics against the normal equations and scikit-learn."""

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.pretraining.algorithm1.readout import PENALTIES, GramStatistics, ridge


def problem(rows: int, width: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, width)) * np.linspace(0.1, 2, width)
    truth = np.random.default_rng(99).normal(size=width)
    return features, features @ truth + noise * rng.normal(size=rows)


def statistics(features: np.ndarray, labels: np.ndarray) -> GramStatistics:
    return GramStatistics.zeros(features.shape[1]).add(torch.from_numpy(features), torch.from_numpy(labels))


@pytest.mark.parametrize("rows", [5, 200])
@pytest.mark.parametrize("penalty", [1e-6, 0.3, 100.0])
def test_ridge_solves_the_normal_equations(rows, penalty):
    features, labels = problem(rows, 12, 0.5)
    fit = ridge(statistics(features, labels), penalty=penalty)
    gram = features.T @ features + penalty * np.eye(12)
    np.testing.assert_allclose(gram @ fit.weights.numpy(), features.T @ labels, rtol=1e-8, atol=1e-8)
    assert fit.penalty == penalty
    assert fit.holdout == {}
    if rows > 12:
        assert fit.condition == pytest.approx(np.linalg.cond(gram), rel=1e-6)


def test_ridge_is_that_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    features, labels = problem(300, 20, 0.5)
    peer = linear_model.Ridge(alpha=2.5, fit_intercept=False).fit(features, labels)
    ours = ridge(statistics(features, labels), penalty=2.5)
    np.testing.assert_allclose(ours.weights.numpy(), peer.coef_, rtol=1e-9, atol=1e-10)


def test_statistics_in_pieces_are_statistics_at_once():
    features, labels = problem(101, 7, 0.5)
    whole = statistics(features, labels)
    streamed = GramStatistics.zeros(7)
    for start in range(0, 101, 13):
        streamed = streamed.add(
            torch.from_numpy(features[start : start + 13]), torch.from_numpy(labels[start : start + 13])
        )
    halves = statistics(features[:40], labels[:40]) + statistics(features[40:], labels[40:])
    for other in (streamed, halves):
        torch.testing.assert_close(other.gram, whole.gram, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(other.moment, whole.moment, rtol=1e-12, atol=1e-12)
        assert other.square == pytest.approx(whole.square, rel=1e-12)
        assert other.rows == 101


def test_the_error_from_statistics_is_the_error_of_the_predictions():
    features, labels = problem(50, 4, 1.0)
    weights = np.random.default_rng(1).normal(size=4)
    expected = np.mean((features @ weights - labels) ** 2)
    assert statistics(features, labels).error(torch.from_numpy(weights)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("noise", [0.01, 20.0])
def test_the_hold_out_picks_the_penalty_that_a_search_by_hand_picks(noise):
    features, labels = problem(40, 30, noise)
    held, held_labels = problem(2000, 30, noise, seed=1)
    fit = ridge(statistics(features, labels), statistics(held, held_labels))
    unit = np.mean(np.sum(features**2, 0))
    by_hand = {}
    for candidate in PENALTIES:
        weights = np.linalg.solve(features.T @ features + candidate * unit * np.eye(30), features.T @ labels)
        by_hand[candidate] = np.mean((held @ weights - held_labels) ** 2)
        assert fit.holdout[candidate] == pytest.approx(by_hand[candidate], rel=1e-5)
    best = min(by_hand, key=lambda c: by_hand[c])
    # Little noise wants next to no penalty, much noise a large one.
    assert (best < 1e-2) == (noise < 1)
    both, both_labels = np.concatenate([features, held]), np.concatenate([labels, held_labels])
    penalty = best * np.mean(np.sum(both**2, 0))
    assert fit.penalty == pytest.approx(penalty, rel=1e-9)
    refit = np.linalg.solve(both.T @ both + penalty * np.eye(30), both.T @ both_labels)
    np.testing.assert_allclose(fit.weights.numpy(), refit, rtol=1e-6, atol=1e-8)


def test_dead_features_get_no_weight():
    # ReLUs that never fire leave zero columns: the Gram matrix is singular.
    features, labels = problem(60, 6, 0.1)
    features[:, 2] = 0
    fit = ridge(statistics(features, labels), penalty=1e-3)
    # An exact zero but for the eigenvectors' rounding, which the small penalty magnifies.
    assert abs(float(fit.weights[2])) < 1e-9
    assert bool(torch.isfinite(fit.weights).all())


def test_a_penalty_that_cannot_be_chosen_or_used_is_refused():
    features, labels = problem(20, 3, 0.1)
    full, empty = statistics(features, labels), GramStatistics.zeros(3)
    for fit, held in [(full, None), (full, empty), (empty, full)]:
        with pytest.raises(InputError, match="hold-out"):
            ridge(fit, held)
    for penalty in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="lambda2"):
            ridge(full, penalty=penalty)


def test_a_penalty_below_rounding_is_refused_and_no_candidate():
    # Equal columns: F'F = 12 at (1, 1)/sqrt 2 and 0 beside it, so w = 6.5 / (12 + lambda2) on both, F'y = 6.5.
    features, labels = np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 2.0]]), np.array([0.5, 2.0, 2.0])
    equal = statistics(features, labels)
    for penalty in (2.0**-10, 2.0**-30):
        weights = ridge(equal, penalty=penalty).weights.numpy()
        np.testing.assert_allclose(weights, 6.5 / (12 + penalty), rtol=1e-6)
    with pytest.raises(InputError, match=r"lambda2 is 1e-14, at which .* expected at least 2\.7e-13"):
        ridge(equal, penalty=1e-14)
    # 5,000 equal columns have their whole trace in one eigenvalue: 1e-10 of the mean is 5e13 times less.
    wide = statistics(np.ones((2, 5000)), np.ones(2))
    assert min(ridge(wide, wide).holdout) == PENALTIES[1]
