"""The contract that every estimator keeps."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.errors import InputError
from iclab.estimators import (
    ESTIMATORS,
    ArcCosine,
    CausalLearner,
    Estimator,
    KernelRidge,
    LeastSquares,
    NearestNeighbours,
    Ridge,
    Zero,
    estimator,
)
from iclab.prompts import Prompts, SingleIndex, Stream

ALL = [
    Zero(),
    LeastSquares(),
    LeastSquares(coordinates=(0,)),
    Ridge(0.3),
    Ridge("bayes", noise_variance=0.25),
    KernelRidge("rbf", 0.1),
    KernelRidge("laplace", 0.1, coordinates=(0,)),
    KernelRidge("polynomial", 0.1),
    KernelRidge("arc_cosine", 0.1),
    NearestNeighbours(3),
]
LEARNING = [learner for learner in ALL if not isinstance(learner, Zero)]


def draw(batch: int, count: int, queries: int, dim: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Prompts:
    """Prompts whose query labels are NaN, so that an estimator that peeks is found out."""
    distribution = SingleIndex(dim, dim, "he2", noise=0.3)
    prompts = distribution.sample(Stream(seed).child("estimators"), batch, count, queries, dtype=dtype)
    labels = prompts.labels.clone()
    labels[:, count:] = torch.nan
    return dataclasses.replace(prompts, labels=labels, targets=None)


def by_name(learner: Estimator) -> str:
    return learner.name


def test_registry_holds_every_family_and_all_are_causal_learners():
    assert {type(learner) for learner in ALL} == set(ESTIMATORS.values())
    assert all(isinstance(family(), CausalLearner) for family in ESTIMATORS.values())


@pytest.mark.parametrize("learner", ALL, ids=by_name)
@settings(max_examples=12, deadline=None)
@given(batch=st.integers(1, 4), count=st.integers(0, 13), queries=st.integers(0, 3), dim=st.integers(1, 5))
def test_prefix_predictions_are_those_of_shorter_prompts(learner, batch, count, queries, dim):
    prompts = draw(batch, count, queries, dim)
    along = learner.predict_prefixes(prompts)
    several = learner.predict_at(prompts, range(count, -1, -1))
    assert along.shape == (batch, count)
    assert several.shape == (count + 1, batch, queries)
    for k in range(count):
        shorter = Prompts(prompts.inputs[:, : k + 1], prompts.labels[:, : k + 1], k)
        torch.testing.assert_close(along[:, k], learner.predict(shorter)[:, 0], rtol=1e-8, atol=1e-8)
    for k in range(count + 1):
        torch.testing.assert_close(several[count - k], learner.predict(prompts.prefix(k)), rtol=1e-8, atol=1e-8)
    assert not learner.predict(prompts.prefix(0)).any()


@pytest.mark.parametrize("learner", ALL, ids=by_name)
def test_predictions_are_zero_before_the_first_example_and_finite_after(learner):
    prompts = draw(3, 6, 2, 2)
    along = learner.predict_prefixes(prompts)
    assert not along[:, 0].any()
    assert along.isfinite().all()
    assert learner.predict(prompts).isfinite().all()


@pytest.mark.parametrize("learner", LEARNING, ids=by_name)
def test_later_examples_never_change_earlier_predictions(learner):
    prompts = draw(3, 40, 1, 4)
    before = learner.predict_prefixes(prompts)
    for cut in (1, 7, 8, 33):
        inputs, labels = prompts.inputs.clone(), prompts.labels.clone()
        labels[:, cut:40] += 100.0
        inputs[:, cut + 1 : 40] *= -3.0
        after = learner.predict_prefixes(dataclasses.replace(prompts, inputs=inputs, labels=labels))
        torch.testing.assert_close(after[:, : cut + 1], before[:, : cut + 1], rtol=1e-9, atol=1e-9)
        assert not torch.allclose(after[:, cut + 2 :], before[:, cut + 2 :], atol=1e-3)


@pytest.mark.parametrize("learner", ALL, ids=by_name)
def test_prompts_do_not_influence_each_other(learner):
    prompts = draw(7, 20, 3, 4)
    order = torch.tensor([4, 0, 6, 5, 2, 1, 3])
    mixed = Prompts(prompts.inputs[order], prompts.labels[order], 20)
    torch.testing.assert_close(learner.predict(mixed), learner.predict(prompts)[order], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        learner.predict_prefixes(mixed), learner.predict_prefixes(prompts)[order], rtol=1e-9, atol=1e-9
    )
    torch.testing.assert_close(learner.predict(prompts[2:3]), learner.predict(prompts)[2:3], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("learner", ALL, ids=by_name)
def test_float32_prompts_are_computed_in_float64_and_returned_in_float32(learner):
    prompts = draw(4, 25, 2, 3, torch.float32)
    precise = learner.predict(prompts.to(torch.float64))
    result = learner.predict(prompts)
    assert result.dtype == torch.float32
    assert learner.predict_prefixes(prompts).dtype == torch.float32
    torch.testing.assert_close(result, precise.float(), rtol=0, atol=0)


@pytest.mark.parametrize("learner", ALL, ids=by_name)
def test_chunks_of_prompts_do_not_change_predictions(learner, monkeypatch):
    prompts = draw(5, 12, 2, 3)
    whole, along = learner.predict(prompts), learner.predict_prefixes(prompts)
    sizes = []
    original = type(learner).at_queries
    monkeypatch.setattr(
        type(learner), "at_queries", lambda self, x, y, q, c: sizes.append(len(x)) or original(self, x, y, q, c)
    )
    monkeypatch.setattr(
        estimator, "TEMPORARY_BYTES", 2 * learner.prompt_bytes(12, 2, len(learner.coordinates or "abc"))
    )
    torch.testing.assert_close(learner.predict(prompts), whole, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(learner.predict_prefixes(prompts), along, rtol=1e-9, atol=1e-9)
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize("learner", LEARNING, ids=by_name)
def test_bad_prompts_are_refused(learner):
    prompts = draw(2, 5, 1, 2)
    labels, inputs = prompts.labels.clone(), prompts.inputs.clone()
    labels[1, 3] = torch.nan
    inputs[0, 2, 0] = torch.inf
    with pytest.raises(InputError, match=r"labels of the context is nan at \(1, 3\)"):
        learner.predict(dataclasses.replace(prompts, labels=labels, trusted=True))
    with pytest.raises(InputError, match=r"inputs is inf at \(0, 2, 0\)"):
        learner.predict_prefixes(dataclasses.replace(prompts, inputs=inputs, trusted=True))
    with pytest.raises(InputError, match=r"num_examples is 6; expected an integer in \[0, 5\]"):
        learner.predict_at(prompts, [6])
    with pytest.raises(InputError, match="empty"):
        learner.predict_at(prompts, [])


@pytest.mark.parametrize("family", [LeastSquares, Ridge, KernelRidge, NearestNeighbours])
def test_given_coordinates_are_the_only_ones_used(family):
    prompts = draw(3, 9, 2, 4)
    chosen = Prompts(prompts.inputs[:, :, [3, 1]], prompts.labels, 9)
    told = family(coordinates=(3, 1))
    assert told.name.endswith(", intrinsic")
    torch.testing.assert_close(told.predict(prompts), family().predict(chosen), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(told.predict_prefixes(prompts), family().predict_prefixes(chosen), rtol=1e-9, atol=1e-9)
    with pytest.raises(InputError, match="uses coordinate 4 and the inputs have 4"):
        family(coordinates=(4,)).predict(prompts)
    for wrong in ((), (1, 1), (-1,), (0.5,)):
        with pytest.raises(InputError, match="coordinate"):
            family(coordinates=wrong)


def test_names_carry_the_settings():
    assert Zero().name == "zero"
    assert LeastSquares().name == "least squares"
    assert Ridge(0.05).name == "ridge, 5e-2"
    assert Ridge("bayes", noise_variance=0.5, signal_variance=2).name == "ridge, Bayes 0.25 d"
    assert KernelRidge("rbf", 1e-2, bandwidth=2.8, coordinates=(0, 1)).name == "kernel ridge, rbf(2.8), 1e-2, intrinsic"
    assert KernelRidge().name == "kernel ridge, rbf(sqrt d), 1e-2"
    assert KernelRidge(coordinates=range(8)).name == "kernel ridge, rbf(2.83), 1e-2, intrinsic"
    assert KernelRidge("laplace", 2500).name == "kernel ridge, laplace(d), 2.5e3"
    assert KernelRidge("laplace", coordinates=range(8)).name == "kernel ridge, laplace(8), 1e-2, intrinsic"
    assert KernelRidge("polynomial", 1, gamma=0.5, coef0=0).name == "kernel ridge, polynomial(3, gamma 0.5, coef0 0), 1"
    assert KernelRidge(ArcCosine(), 1).name == "kernel ridge, arc-cosine(1), 1"
    assert NearestNeighbours(5).name == "5-nearest neighbours"
    assert repr(Zero()) == "Zero('zero')"


def test_a_prompt_that_cannot_fit_into_memory_is_refused():
    inputs = torch.zeros(1, 1).expand(2_000_001, 1)[None]
    prompts = Prompts(inputs, inputs[..., 0], 2_000_000)
    with pytest.raises(InputError, match="would take"):
        KernelRidge().predict(prompts)
