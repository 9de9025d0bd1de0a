"""Least squares and ridge where they are hard: repeats, missing rank, tiny penalties, blocks."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.errors import InputError
from iclab.estimators import LeastSquares, Ridge
from iclab.estimators.linear import _fast_block, _SlowBlock
from iclab.prompts import Prompts


def prompts_from(x: np.ndarray, seed: int = 0, queries: int = 3) -> Prompts:
    generator = np.random.default_rng(seed)
    y = generator.standard_normal(x.shape[:2])
    q = generator.standard_normal((x.shape[0], queries, x.shape[2]))
    return Prompts.from_arrays(x, y, q)


def check_least_squares(prompts: Prompts) -> None:
    """Against NumPy's pseudo-inverse, for each prefix by itself."""
    x, y, q = prompts.examples.numpy(), prompts.example_labels.numpy(), prompts.queries.numpy()
    count = prompts.num_examples
    along = LeastSquares().predict_prefixes(prompts).numpy()
    several = LeastSquares().predict_at(prompts, range(1, count + 1)).numpy()
    for b in range(len(x)):
        for n in range(1, count + 1):
            w = np.linalg.pinv(x[b, :n], rcond=1e-12) @ y[b, :n]
            scale = 1 + np.linalg.norm(w)
            np.testing.assert_allclose(several[n - 1, b] / scale, q[b] @ w / scale, rtol=0, atol=1e-8)
            if n < count:
                np.testing.assert_allclose(along[b, n] / scale, x[b, n] @ w / scale, rtol=0, atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 24), dim=st.integers(1, 7), distinct=st.integers(1, 6), seed=st.integers(0, 99))
def test_repeated_examples_give_the_minimum_norm_solution(count, dim, distinct, seed):
    generator = np.random.default_rng(seed)
    pool = generator.standard_normal((2, distinct, dim))
    check_least_squares(prompts_from(pool[:, generator.integers(0, distinct, count)], seed))


def test_ridge_with_repeated_examples_solves_the_normal_equations_at_every_prefix():
    generator = np.random.default_rng(8)
    prompts = prompts_from(generator.standard_normal((2, 3, 6))[:, generator.integers(0, 3, 50)])
    x, y, q = prompts.examples.numpy(), prompts.example_labels.numpy(), prompts.queries.numpy()
    several = Ridge(0.2).predict_at(prompts, range(1, 51)).numpy()
    for b in range(2):
        for n in range(1, 51):
            w = np.linalg.solve(x[b, :n].T @ x[b, :n] + 0.2 * np.eye(6), x[b, :n].T @ y[b, :n])
            np.testing.assert_allclose(several[n - 1, b], q[b] @ w, rtol=1e-9, atol=1e-9)


def test_inputs_that_never_span_the_space():
    x = np.random.default_rng(1).standard_normal((2, 75, 5))
    x[..., 2] = 0.0
    x[..., 4] = x[..., 0]
    check_least_squares(prompts_from(x))


def test_prompts_of_different_rank_in_one_batch():
    x = np.random.default_rng(2).standard_normal((3, 80, 4))
    x[1, :, 1] = x[1, :, 3]
    x[2, :40] = x[2, :1]
    check_least_squares(prompts_from(x))


def test_inputs_of_very_different_scale():
    x = np.random.default_rng(3).standard_normal((2, 90, 4)) * np.array([1.0, 1e-3, 1e3, 1.0])
    check_least_squares(prompts_from(x))


def test_all_inputs_zero():
    prompts = prompts_from(np.zeros((2, 6, 3)))
    assert not LeastSquares().predict(prompts).any()
    assert not Ridge(0.1).predict_prefixes(prompts).any()


def test_noiseless_linear_labels_are_recovered_from_d_examples():
    generator = np.random.default_rng(4)
    x, w = generator.standard_normal((5, 200, 6)), generator.standard_normal((5, 6, 1))
    y = (x @ w)[..., 0]
    prompts = Prompts.from_arrays(x[:, :190], y[:, :190], x[:, 190:], y[:, 190:])
    along = LeastSquares().predict_prefixes(prompts).numpy()
    np.testing.assert_allclose(along[:, 6:], y[:, 6:190], atol=1e-9)
    assert (np.abs(along[:, 5] - y[:, 5]) > 1e-6).all()


def test_fast_and_slow_blocks_agree_and_the_fast_one_is_used_on_ordinary_inputs():
    generator = torch.Generator().manual_seed(5)
    rows = torch.randn(4, 60, 7, generator=generator, dtype=torch.float64)
    past = torch.linalg.qr(rows[:, :28], mode="r").R
    fast, slow = _fast_block(past, rows[:, 28:]), _SlowBlock(past, rows[:, 28:])
    assert fast is not None
    queries = torch.randn(4, 3, 6, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(fast.at_examples(), slow.at_examples(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(
        fast.at_queries(queries, [1, 9, 32]), slow.at_queries(queries, [1, 9, 32]), rtol=1e-10, atol=1e-10
    )
    repeated = torch.linalg.qr(rows[:, :1].expand(4, 28, 7), mode="r").R
    assert _fast_block(repeated, rows[:, 28:]) is None


@pytest.mark.parametrize("penalty", [1e-14, 1e-9])
def test_ridge_tends_to_least_squares(penalty):
    x = np.random.default_rng(6).standard_normal((3, 40, 5))
    prompts = prompts_from(x)
    for count in (2, 10, 40):
        torch.testing.assert_close(
            Ridge(penalty).predict_at(prompts, [count]), LeastSquares().predict_at(prompts, [count]), rtol=0, atol=1e-6
        )
    torch.testing.assert_close(Ridge(0).predict_prefixes(prompts), LeastSquares().predict_prefixes(prompts))


def test_bayes_penalty_is_d_times_noise_over_signal_and_beats_its_neighbours():
    dim, noise, signal = 6, 0.5, 2.0
    generator = np.random.default_rng(7)
    w = generator.standard_normal((4000, dim, 1)) * np.sqrt(signal / dim)
    x = generator.standard_normal((4000, 11, dim))
    y = (x @ w)[..., 0]
    noisy = y + np.sqrt(noise) * generator.standard_normal(y.shape)
    prompts = Prompts.from_arrays(x[:, :10], noisy[:, :10], x[:, 10:], y[:, 10:])
    bayes = Ridge("bayes", noise_variance=noise, signal_variance=signal)
    best = dim * noise / signal
    torch.testing.assert_close(bayes.predict(prompts), Ridge(best).predict(prompts), rtol=1e-12, atol=1e-12)

    def error(learner: Ridge | LeastSquares) -> float:
        return float((learner.predict(prompts) - prompts.query_labels).square().mean())

    # Posterior variance of <w, x> at a fresh standard input: noise * E tr (X'X + penalty I)^{-1}.
    gram = np.swapaxes(x[:, :10], 1, 2) @ x[:, :10] + best * np.eye(dim)
    expected = noise * np.trace(np.linalg.inv(gram), axis1=1, axis2=2).mean()
    assert error(bayes) == pytest.approx(expected, rel=0.08)
    assert error(bayes) < min(error(Ridge(best / 4)), error(Ridge(best * 4)), error(LeastSquares()))
    told = Ridge("bayes", noise_variance=noise, signal_variance=signal, coordinates=(0, 2))
    torch.testing.assert_close(told.predict(prompts), Ridge(0.5, coordinates=(0, 2)).predict(prompts))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"penalty": -1.0}, "penalty is -1.0; expected a finite number >= 0"),
        ({"penalty": float("nan")}, "expected a finite number >= 0"),
        ({"penalty": "best"}, "penalty is 'best'"),
        ({"penalty": "bayes"}, "without a noise_variance"),
        ({"penalty": "bayes", "noise_variance": -1.0}, "noise_variance is -1.0"),
        ({"penalty": "bayes", "noise_variance": 1.0, "signal_variance": 0.0}, "signal_variance is 0.0"),
        ({"penalty": 1.0, "noise_variance": 1.0}, "variances beside the fixed penalty"),
    ],
)
def test_ridge_refuses_bad_settings(arguments, message):
    with pytest.raises(InputError, match=message):
        Ridge(**arguments)


def _exactly(x: np.ndarray, y: np.ndarray, queries: np.ndarray, penalty: float) -> np.ndarray:
    """Ridge predictions of one prompt in rational arithmetic, for the very floats given."""
    rows = [[Fraction(float(value)) for value in row] for row in x]
    labels = [Fraction(float(value)) for value in y]
    dim = len(rows[0])
    system: list[list[Fraction]] = [
        [Fraction(sum(r[i] * r[j] for r in rows) + (Fraction(penalty) if i == j else 0)) for j in range(dim)]
        + [Fraction(sum(r[i] * label for r, label in zip(rows, labels, strict=True)))]
        for i in range(dim)
    ]
    for i in range(dim):
        system[i] = [entry / system[i][i] for entry in system[i]]
        for j in range(dim):
            if j != i:
                system[j] = [a - system[j][i] * b for a, b in zip(system[j], system[i], strict=True)]
    weights = [row[-1] for row in system]
    return np.array([float(sum(Fraction(float(a)) * w for a, w in zip(q, weights, strict=True))) for q in queries])


@pytest.mark.parametrize(
    ("gap", "penalty", "error"),
    [
        (0.0, 1e-10, 1e-4),
        (0.0, 1e-14, None),
        (1e-14, 1e-10, 1e-4),
        (1e-14, 1e-13, None),
        (1e-14, 1e-16, None),
        (1e-9, 1e-14, 1e-4),
        (1e-9, 0.0, 1e-4),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_predictions_have_their_digits_or_are_refused(gap: float, penalty: float, error: float | None, seed: int):
    """Two of three columns nearly equal, noisy labels, queries that tell the two apart."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((64, 3))
    x[:, 2] = x[:, 0] + gap * x[:, 2]
    y, q = x[:, 0] - x[:, 1] + 0.1 * generator.standard_normal(64), generator.standard_normal((4, 3))
    prompts, ridge = Prompts.from_arrays(x[None], y[None], q[None]), Ridge(penalty)
    if error is None:
        with pytest.raises(InputError, match=r"first 64 examples .* fewer than two digits .*: raise the penalty"):
            ridge.predict(prompts)
    else:
        exact = _exactly(x, y, q, penalty)
        np.testing.assert_allclose(ridge.predict(prompts)[0], exact, atol=error * np.abs(exact).max())
    # Queries in which the columns are as alike as in the examples do not ask for what is lost.
    alike = np.stack([q[:, 0], q[:, 1], q[:, 0]], 1)
    found = ridge.predict(Prompts.from_arrays(x[None], y[None], alike[None]))[0]
    exact = _exactly(x, y, alike, penalty)
    np.testing.assert_allclose(found, exact, atol=1e-6 * np.abs(exact).max())


def test_digits_of_predictions_are_those_at_any_scale():
    """The check itself leaves no range of floating point, and refuses no labels that cancel."""
    x = np.random.default_rng(9).standard_normal((2, 40, 4))
    x[..., 3] = 0.0
    prompts = prompts_from(x)
    for size in (1e-150, 1e-100, 1e100, 1e150):
        scaled = Prompts.from_arrays(size * prompts.examples, prompts.example_labels, size * prompts.queries)
        torch.testing.assert_close(LeastSquares().predict(scaled), LeastSquares().predict(prompts))
    twice = Prompts.from_arrays(np.repeat(x[:, :20], 2, 1), np.tile([1.0, -1.0], (2, 20)), prompts.queries)
    for learner in (LeastSquares(), Ridge(1e-14)):
        assert learner.predict(twice).abs().max() < 1e-14


def test_repeats_with_noisy_labels_beneath_the_dimension_are_refused_at_the_prefix_that_loses_them():
    """Four examples of two inputs leave residuals, and directions that the penalty alone resolves: predictions of
    ``Ridge(1e-14)`` differed from their limit, the minimum-norm solution, by up to 4 %."""
    generator = np.random.default_rng(1)
    x, y = np.repeat(generator.standard_normal((1, 2, 5)), 4, 1), generator.standard_normal((1, 8))
    prompts = Prompts.from_arrays(x, y, generator.standard_normal((1, 3, 5)))
    with pytest.raises(InputError, match=r"^the inputs of the first 8 examples are nearly dependent: .* 1e-14: raise"):
        Ridge(1e-14).predict(prompts)
    with pytest.raises(InputError, match=r"^the inputs of the first 4 examples are nearly dependent"):
        Ridge(1e-14).predict_prefixes(prompts)
    limit = LeastSquares().predict(prompts)
    torch.testing.assert_close(Ridge(1e-8).predict(prompts), limit, rtol=0, atol=1e-6)
    check_least_squares(prompts)
