"""Which examples are outliers, which labels they show, which tasks there are; and every wrong argument."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.errors import InputError
from iclab.prompts import PLACEMENTS, SAMPLINGS, OutlierClassification, OutlierRules, Stream, task_pairs
from outlier_support import STREAM, TRAINING, clean_targets, draw

FRACTIONS = st.floats(0, 1)


# Which examples are outliers


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.6, 1.0])
def test_iid_outliers_have_a_binomial_number(fraction: float, placement: str):
    distribution = TRAINING.replace(outlier_fraction=fraction, placement=placement)
    counts = draw(distribution, 2000, 20, 1).example_outliers.sum(1).double()
    variance = 20 * fraction * (1 - fraction)
    assert abs(float(counts.mean()) - 20 * fraction) <= 5 * (variance / 2000) ** 0.5
    if variance:
        # The sample variance of a binomial number: kurtosis is near 3, so its relative error is near sqrt(2 / 2000).
        assert float(counts.var()) == pytest.approx(variance, rel=5 * (2 / 2000) ** 0.5)


@pytest.mark.parametrize("placement", PLACEMENTS)
@given(fraction=FRACTIONS, examples=st.integers(0, 31))
@settings(max_examples=20, deadline=None)
def test_fixed_counts_are_the_fraction_to_the_nearest_example(placement: str, fraction: float, examples: int):
    distribution = TRAINING.replace(outlier_fraction=fraction, placement=placement, sampling="fixed_count")
    counts = draw(distribution, 9, examples, 1).example_outliers.sum(1)
    assert counts.unique().tolist() == [distribution.rules.count(examples)]
    assert abs(distribution.rules.count(examples) - fraction * examples) <= 0.5


@pytest.mark.parametrize(("fraction", "examples", "count"), [(0.3, 20, 6), (0.7, 20, 14), (0.5, 5, 3), (0.8, 20, 16)])
def test_fixed_counts(fraction: float, examples: int, count: int):
    assert OutlierRules(fraction).count(examples) == count


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_random_places_are_uniform(sampling: str):
    distribution = TRAINING.replace(outlier_fraction=0.3, sampling=sampling)
    shares = draw(distribution, 3000, 10, 1).example_outliers.double().mean(0)
    assert float((shares - 0.3).abs().max()) < 5 * (0.21 / 3000) ** 0.5


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("placement", ["farthest", "closest"])
def test_placed_outliers_fill_one_end_of_the_context(sampling: str, placement: str):
    distribution = TRAINING.replace(outlier_fraction=0.4, sampling=sampling, placement=placement)
    p = draw(distribution, 200, 12, 2)
    random = draw(distribution.replace(placement="random"), 200, 12, 2)
    assert torch.equal(p.outliers.sum(1), random.outliers.sum(1))
    ordered = p.example_outliers.int()
    expected = ordered.sort(dim=1, descending=placement == "farthest").values
    assert torch.equal(ordered, expected)
    assert 0 < int(ordered.sum()) < ordered.numel()
    assert not p.outliers[:, 12:].any()


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("placement", PLACEMENTS)
@given(fractions=st.tuples(FRACTIONS, FRACTIONS), seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_a_larger_fraction_adds_outliers_and_removes_none(placement, sampling, fractions, seed):
    uniforms = torch.rand(6, 13, generator=Stream(seed).at(0), dtype=torch.float64)
    few, many = (OutlierRules(f, placement=placement, sampling=sampling).outliers(uniforms) for f in sorted(fractions))
    assert not bool((few & ~many).any())


# Their labels


@pytest.mark.parametrize("rule", ["random", "flipped", "target"])
@pytest.mark.parametrize("target", [1, -1])
def test_clean_examples_show_their_clean_label(rule: str, target: int):
    p = draw(TRAINING.replace(label_rule=rule, target_label=target), 200, 20, 1)
    targets, outliers = clean_targets(p), p.outliers
    assert set(p.labels.unique().tolist()) == {1.0, -1.0}
    assert torch.equal(p.labels[~outliers], targets[~outliers])
    shown = p.labels[outliers]
    if rule == "flipped":
        assert torch.equal(shown, -targets[outliers])
    elif rule == "target":
        assert shown.unique().tolist() == [target]
    else:
        assert abs(float(shown.mean())) < 5 / len(shown) ** 0.5
        assert abs(float((shown * targets[outliers]).mean())) < 5 / len(shown) ** 0.5


def test_a_rule_of_one_s_own_sees_the_outlier_and_numbers():
    def by_pattern(targets: torch.Tensor, kinds: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        assert targets.shape == kinds.shape == uniforms.shape == (8, 20)
        rare = torch.where(uniforms < 0.25, 1.0, -1.0)
        return torch.where(kinds == 0, -targets, torch.where(kinds == 1, targets, rare.to(targets.dtype)))

    distribution = TRAINING.replace(label_rule=by_pattern)
    p = draw(distribution, 400, 20, 1)
    targets = clean_targets(p)
    along = p.inputs @ (distribution.outlier_patterns / 9).T
    kind = torch.where(p.outliers, along.argmax(-1), -1)
    assert torch.equal(p.labels[kind == 0], -targets[kind == 0])
    assert torch.equal(p.labels[kind == 1], targets[kind == 1])
    share = (p.labels[kind == 2] == 1).double()
    assert abs(float(share.mean()) - 0.25) < 5 * (0.1875 / len(share)) ** 0.5
    assert torch.equal(p.labels[kind == -1], targets[kind == -1])


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        (lambda targets, kinds, uniforms: targets[:, :1], r"returned \(8, 1\); expected a tensor of shape \(8, 4\)"),
        (lambda targets, kinds, uniforms: 1, "returned int"),
        (lambda targets, kinds, uniforms: 0 * targets, r"other than \+1 and -1"),
        (lambda targets, kinds, uniforms: targets.sqrt(), r"other than \+1 and -1"),
    ],
)
def test_a_rule_of_one_s_own_must_return_labels(rule, word: str):
    with pytest.raises(InputError, match=word):
        draw(TRAINING.replace(label_rule=rule), 8, 4)


# Tasks


@given(patterns=st.integers(2, 9), data=st.data(), seed=st.integers(0, 2**63 - 1))
@settings(max_examples=40, deadline=None)
def test_a_number_of_tasks_is_a_balanced_set(patterns: int, data: st.DataObject, seed: int):
    each = data.draw(st.integers(1, patterns - 1))
    pairs = task_pairs(each * patterns, patterns, Stream(seed))
    assert len(set(pairs)) == each * patterns
    assert all(a != b for a, b in pairs)
    for side in (0, 1):
        assert np.bincount([pair[side] for pair in pairs], minlength=patterns).tolist() == [each] * patterns


def test_all_tasks_and_the_cycle():
    assert task_pairs("cycle", 4, Stream(0)) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    every = [(a, b) for a in range(4) for b in range(4) if a != b]
    assert task_pairs("all", 4, Stream(0)) == every == task_pairs(12, 4, Stream(7))
    forms: list[Any] = [[(2, 0), [1, 3]], np.array([[2, 0], [1, 3]]), torch.tensor([[2, 0], [1, 3]])]
    for pairs in forms:
        assert task_pairs(pairs, 4, Stream(0)) == [(1, 3), (2, 0)]


def test_the_set_of_tasks_is_drawn_from_the_seed():
    sets = {tuple(OutlierClassification(tasks=12, seed=seed).task_pairs) for seed in range(20)}
    assert len(sets) > 15
    # Over many seeds no pair is preferred: 12 of 30 pairs, so each has probability 0.4.
    counts = np.zeros((6, 6))
    for seed in range(600):
        for pair in task_pairs(12, 6, Stream(seed)):
            counts[pair] += 1
    off = counts[~np.eye(6, dtype=bool)] / 600
    assert np.abs(off - 0.4).max() < 5 * (0.24 / 600) ** 0.5


# Wrong arguments


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"ambient_dim": 18}, "are 19; expected at most ambient_dim = 18"),
        ({"ambient_dim": 0}, "ambient_dim is 0"),
        ({"ambient_dim": 30.0}, "ambient_dim is 30.0"),
        ({"relevant": 1}, "relevant is 1; expected an integer >= 2"),
        ({"irrelevant": -1}, "irrelevant is -1"),
        ({"outliers": 0}, "outliers is 0"),
        ({"norm": 0.0}, "norm is 0.0"),
        ({"norm": float("nan")}, "norm is nan"),
        ({"outlier_norm": -1.0}, "outlier_norm is -1.0"),
        ({"outlier_fraction": 1.01}, r"outlier_fraction is 1.01; expected a finite number in \[0, 1\]"),
        ({"outlier_fraction": -0.01}, "outlier_fraction"),
        ({"outlier_fraction": float("nan")}, "outlier_fraction is nan"),
        ({"outlier_fraction": True}, "outlier_fraction is True"),
        ({"outlier_fraction": "0.5"}, "outlier_fraction is '0.5'"),
        ({"outlier_size": -1.0}, "outlier_size is -1.0; expected a finite number >= 0"),
        ({"outlier_size": float("inf")}, "outlier_size is inf"),
        ({"irrelevant_range": -0.5}, "irrelevant_range"),
        ({"irrelevant_range": None}, "irrelevant_range is None"),
        ({"orthogonal": -1}, "orthogonal is -1"),
        ({"ambient_dim": 19, "orthogonal": 1.0}, "the patterns fill all 19 dimensions"),
        ({"input_noise": float("nan")}, "input_noise is nan"),
        ({"label_rule": "flip"}, "label_rule is 'flip', did you mean 'flipped'"),
        ({"label_rule": None}, "label_rule is None"),
        ({"target_label": 0}, "target_label is 0; expected 1 or -1"),
        ({"target_label": True}, "target_label is True"),
        ({"placement": "near"}, "placement is 'near'"),
        ({"sampling": "fixed-count"}, "sampling is 'fixed-count', did you mean 'fixed_count'"),
        ({"coefficients": [(0.7, 0.6)]}, "number 0 of the coefficients is a vector of length 2; .* of length 3"),
        ({"coefficients": [(1, 0, 0), (1, 0, 0, 0)]}, "number 1 of the coefficients is a vector of length 4"),
        ({"coefficients": (0.7, 0.6, -0.4)}, "number 0 of the coefficients is 0.7"),
        ({"coefficients": ["abc"]}, "number 0 of the coefficients is 'abc'"),
        ({"coefficients": []}, r"coefficients are \[\]"),
        ({"coefficients": 2}, "coefficients are 2"),
        ({"coefficients": [(1, 0, float("nan"))]}, "coefficients is nan"),
        ({"coefficients": [(1, 0, "x")]}, "coefficients is no rectangular array"),
        ({"tasks": "some"}, "tasks is 'some'; expected 'all', 'cycle'"),
        ({"tasks": 7}, "tasks is 7 for 6 patterns; expected a multiple of 6 up to 30"),
        ({"tasks": 36}, "tasks is 36"),
        ({"tasks": 0}, "number of tasks is 0"),
        ({"tasks": True}, "number of tasks is True"),
        ({"tasks": 6.0}, "number of tasks is 6.0"),
        ({"tasks": None}, "number of tasks is None"),
        ({"tasks": [6]}, "a task is 6"),
        ({"tasks": []}, r"tasks are \[\]"),
        ({"tasks": [(0, 1), (0, 1)]}, "none twice"),
        ({"tasks": [(1, 1)]}, r"a task is \(1, 1\)"),
        ({"tasks": [(0, 6)]}, r"a pattern of tasks is 6; expected an integer in \[0, 5\]"),
        ({"tasks": [(0, 1, 2)]}, r"a task is \(0, 1, 2\)"),
        ({"tasks": ["01"]}, "a task is '01'"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], word: str):
    with pytest.raises(InputError, match=word) as caught:
        OutlierClassification(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "word"), [({"num_prompts": 0}, "num_prompts"), ({"num_examples": -1}, "num_examples")]
)
def test_wrong_sizes_are_refused(arguments: dict[str, Any], word: str):
    sizes: dict[str, Any] = {"num_prompts": 8, "num_examples": 4} | arguments
    with pytest.raises(InputError, match=word):
        TRAINING.sample(STREAM, **sizes)
