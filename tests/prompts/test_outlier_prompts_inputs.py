"""The law of the inputs of prompts with outliers: patterns, tasks, outliers, noise."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.prompts import OutlierClassification, OutlierPrompts
from outlier_support import COEFFICIENTS, TEST, TRAINING, clean_targets, draw


def every_pattern(distribution: OutlierClassification) -> torch.Tensor:
    return torch.cat([distribution.relevant_patterns, distribution.irrelevant_patterns, distribution.outlier_patterns])


def parts(distribution: OutlierClassification, p: OutlierPrompts) -> tuple[torch.Tensor, ...]:
    """The coordinate of every input along each unit relevant, irrelevant and outlier pattern, and what is left."""
    patterns = every_pattern(distribution)
    units = patterns / patterns.norm(dim=1, keepdim=True)
    along = p.inputs @ units.T
    counts = [
        len(distribution.relevant_patterns),
        len(distribution.irrelevant_patterns),
        len(distribution.outlier_patterns),
    ]
    return (*along.split(counts, -1), p.inputs - along @ units)


# Patterns


@settings(max_examples=30, deadline=None)
@given(
    counts=st.tuples(st.integers(2, 5), st.integers(0, 5), st.integers(1, 4)),
    spare=st.integers(0, 5),
    norm=st.floats(0.1, 50),
    outlier_norm=st.none() | st.floats(0.1, 50),
    seed=st.integers(0, 2**63 - 1),
)
def test_patterns_are_orthogonal_and_have_their_lengths(counts, spare, norm, outlier_norm, seed):
    distribution = OutlierClassification(sum(counts) + spare, *counts, norm=norm, outlier_norm=outlier_norm, seed=seed)
    patterns = every_pattern(distribution)
    assert patterns.shape == (sum(counts), sum(counts) + spare)
    of_outliers = norm if outlier_norm is None else outlier_norm
    squares = torch.tensor([norm**2] * (counts[0] + counts[1]) + [of_outliers**2] * counts[2], dtype=torch.float64)
    assert torch.allclose(patterns @ patterns.T, torch.diag(squares), rtol=1e-12, atol=1e-12 * float(squares.max()))


def test_patterns_depend_on_the_seed_alone():
    distribution = OutlierClassification(seed=5)
    other = OutlierClassification(outliers=1, tasks=12, outlier_fraction=0.9, input_noise=1.0, seed=5)
    assert torch.equal(other.relevant_patterns, distribution.relevant_patterns)
    assert torch.equal(other.irrelevant_patterns, distribution.irrelevant_patterns)
    assert torch.equal(other.outlier_patterns, distribution.outlier_patterns[:1])
    assert not torch.equal(OutlierClassification(seed=6).relevant_patterns, distribution.relevant_patterns)


def test_random_patterns_are_uniform_on_the_sphere():
    # First pattern of 400 seeds in d = 4: coordinates have mean 0, variance 1/4 and fourth moment 3/24.
    first = torch.stack([OutlierClassification(4, 2, 1, 1, norm=1, seed=s).relevant_patterns[0] for s in range(400)])
    assert float(first.mean(0).abs().max()) < 5 * (0.25 / 400) ** 0.5
    assert float((first**4).mean(0).sub(1 / 8).abs().max()) < 5 * 0.17 / 400**0.5


# The law of the inputs


@pytest.mark.parametrize(("distribution", "span"), [(TRAINING, 0.5), (TEST.replace(input_noise=0.0), 2.0)])
def test_an_input_is_its_pattern_an_irrelevant_one_and_perhaps_an_outlier(
    distribution: OutlierClassification, span: float
):
    p = draw(distribution, 400, 20, 1)
    relevant, irrelevant, outlier, _ = parts(distribution, p)
    expected = 3.0 * torch.nn.functional.one_hot(p.patterns, 6)
    assert torch.allclose(relevant, expected.double(), atol=1e-12)
    assert int((irrelevant.abs() > 1e-9).sum(-1).max()) == 1
    sizes = irrelevant.sum(-1) / 3.0
    assert float(sizes.abs().max()) <= span + 1e-12
    # Uniform on (-span, span): mean 0, variance span^2 / 3, fourth moment span^4 / 5.
    assert abs(float(sizes.mean())) < 5 * span * (1 / 3 / sizes.numel()) ** 0.5
    assert abs(float(sizes.square().mean()) - span**2 / 3) < 5 * span**2 * (4 / 45 / sizes.numel()) ** 0.5
    counts = torch.bincount(irrelevant.abs().argmax(-1).ravel(), minlength=10).double()
    assert float((counts / counts.sum() - 0.1).abs().max()) < 5 * (0.09 / sizes.numel()) ** 0.5
    assert float(outlier[~p.outliers].abs().max()) < 1e-12


def test_training_outliers_are_one_pattern_each():
    p = draw(TRAINING, 400, 20, 1)
    *_, outlier, rest = parts(TRAINING, p)
    found = outlier[p.outliers]
    assert torch.allclose(found.sort(1).values, torch.tensor([0.0, 0.0, 6.0], dtype=torch.float64), atol=1e-12)
    shares = (found > 3).double().mean(0)
    assert float((shares - 1 / 3).abs().max()) < 5 * (2 / 9 / len(found)) ** 0.5
    assert float(rest.abs().max()) < 1e-12


def test_test_outliers_are_combinations_and_a_part_orthogonal_to_all_patterns():
    distribution = TEST.replace(input_noise=0.0)
    p = draw(distribution, 400, 20, 1)
    *_, outlier, rest = parts(distribution, p)
    # kappa_a = 4 times the combination of patterns of length 3.
    table = 12 * torch.tensor(COEFFICIENTS, dtype=torch.float64)
    gaps = (outlier[p.outliers][:, None] - table).abs().amax(-1)
    assert float(gaps.min(1).values.max()) < 1e-12
    shares = torch.bincount(gaps.argmin(1), minlength=3).double() / len(gaps)
    assert float((shares - 1 / 3).abs().max()) < 5 * (2 / 9 / len(gaps)) ** 0.5
    lengths = rest.norm(dim=-1)
    assert torch.allclose(lengths[p.outliers], torch.tensor(4 * 1.5, dtype=torch.float64), atol=1e-12)
    assert float(lengths[~p.outliers].max()) < 1e-12
    # Fresh and uniform: in the 11 dimensions that the patterns leave, the mean over outliers vanishes.
    assert float((rest[p.outliers].mean(0) / 6).norm()) < 5 * (1 / len(gaps)) ** 0.5


def test_an_outlier_may_lie_outside_the_patterns_alone():
    distribution = TRAINING.replace(coefficients=[(0, 0, 0)], orthogonal=3.0)
    *_, outlier, rest = parts(distribution, p := draw(distribution))
    assert float(outlier.abs().max()) < 1e-12
    assert torch.allclose(rest.norm(dim=-1), 6.0 * p.outliers.double(), atol=1e-12)


def test_input_noise_is_gaussian_on_every_input():
    quiet, noisy = draw(TRAINING, 300, 20, 1), draw(TRAINING.replace(input_noise=0.3), 300, 20, 1)
    noise = (noisy.inputs - quiet.inputs).reshape(-1, 30) / 0.3
    count = noise.numel()
    assert abs(float(noise.mean())) < 5 / count**0.5
    assert abs(float(noise.square().mean()) - 1) < 5 * (2 / count) ** 0.5
    assert abs(float((noise**4).mean()) - 3) < 5 * (96 / count) ** 0.5
    covariance = noise.T @ noise / len(noise) - torch.eye(30, dtype=torch.float64)
    assert float(covariance.abs().max()) < 6 * (2 / len(noise)) ** 0.5


def test_tasks_and_patterns_are_uniform():
    p = draw(TRAINING, 4000, 8, 1)
    pairs, counts = torch.unique(p.tasks, dim=0, return_counts=True)
    assert [tuple(pair) for pair in pairs.tolist()] == TRAINING.task_pairs
    assert float((counts / 4000 - 1 / 18).abs().max()) < 5 * (17 / 18**2 / 4000) ** 0.5
    positive = (clean_targets(p) == 1).double()
    assert torch.equal(positive.bool(), p.patterns == p.tasks[:, :1])
    assert abs(float(positive.mean()) - 0.5) < 5 * 0.5 / positive.numel() ** 0.5
    # Positions are independent: the query tells nothing of the last example.
    agree = (positive[:, -1] == positive[:, -2]).double().mean()
    assert abs(float(agree) - 0.5) < 5 * 0.5 / 4000**0.5


@pytest.mark.parametrize("rule", ["random", "flipped", "target"])
@pytest.mark.parametrize("distribution", [TRAINING.replace(outlier_fraction=1.0), TEST.replace(outlier_fraction=1.0)])
def test_queries_are_clean(distribution: OutlierClassification, rule: str):
    p = draw(distribution.replace(label_rule=rule, input_noise=0.0, target_label=-1), 40, 5, 3)
    assert p.example_outliers.all()
    assert not p.outliers[:, 5:].any()
    assert torch.equal(p.query_labels, p.query_targets)
    *_, outlier, rest = parts(distribution, p)
    assert float(outlier[:, 5:].abs().max()) < 1e-12
    assert float(rest[:, 5:].abs().max()) < 1e-12
