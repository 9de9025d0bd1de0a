"""What a user's prompt distribution returns is checked at every draw, whoever asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from iclab.errors import InputError
from iclab.models import OneLayerMamba
from iclab.pretraining import hinge_sgd, joint, two_stage
from iclab.pretraining.algorithm1.stage_one import gamma_gradient
from iclab.prompts import OutlierClassification, PromptDistribution, Prompts, SingleIndex, Stream
from train_support import build, distribution, run

Change = Callable[[Prompts], Any]
SIZES: dict[str, Any] = {"stream": Stream(0), "num_examples": 5}


class Own(PromptDistribution):
    """The prompts of another distribution, changed."""

    ambient_dim = 4

    def __init__(self, change: Change) -> None:
        self._change = change

    def draw_chunks(self, generators, num_examples, num_queries, dtype, buffer=None):
        return self._change(distribution().draw_chunks(generators, num_examples, num_queries, dtype))


class Joined(SingleIndex):
    """A family that draws several chunks at once, changed."""

    def __init__(self, change: Change) -> None:
        super().__init__(4, 3)
        self._change = change

    def draw_chunks(self, *arguments, **options):
        return self._change(super().draw_chunks(*arguments, **options))


def with_nan(prompts: Prompts) -> Prompts:
    labels = prompts.labels.clone()
    labels[2, 1] = float("nan")
    return replace(prompts, labels=labels, trusted=True)


def with_infinity(prompts: Prompts) -> Prompts:
    inputs = prompts.inputs.clone()
    inputs[3, 0, 2] = float("inf")
    return replace(prompts, inputs=inputs, trusted=True)


WRONG = [
    (lambda p: p[0:3], "3 prompts of 5 examples and 1 queries in dimension 4; expected 8 prompts of 5 examples"),
    (lambda p: Prompts.cat([p, p]), "16 prompts of 5 examples and 1 queries in dimension 4; expected 8 prompts"),
    (lambda p: p.prefix(4), "8 prompts of 4 examples and 1 queries in dimension 4; expected 8 prompts of 5 examples"),
    (lambda p: replace(p, num_examples=6), "8 prompts of 6 examples and 0 queries in dimension 4; expected 8 prompts"),
    (
        lambda p: replace(p, inputs=p.inputs[..., :3], directions=None),
        "8 prompts of 5 examples and 1 queries in dimension 3; ",
    ),
    (lambda p: p.to(torch.float64), "inputs of torch.float64 on cpu; expected torch.float32 on the CPU, as asked"),
    (lambda p: replace(p, labels=p.labels.double()), "labels of torch.float64 on cpu; expected torch.float32 on the"),
    (lambda p: p.to("meta"), "inputs of torch.float32 on meta; expected torch.float32 on the CPU"),
    (lambda p: (p.inputs, p.labels), "an object of type tuple; expected Prompts"),
    (lambda p: None, "an object of type NoneType; expected Prompts"),
    (with_nan, "a context label that is nan at (2, 1); expected finite numbers"),
    (with_infinity, "an input that is inf at (3, 0, 2); expected finite numbers"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_one_chunk_is_checked(change: Change, message: str):
    with pytest.raises(InputError) as caught:
        Own(change).sample(Stream(0), 64, 5)
    assert str(caught.value).startswith(f"Own.draw_chunks returned {message}")
    assert "\n" not in str(caught.value)


def test_several_chunks_are_checked():
    with pytest.raises(InputError) as caught:
        Joined(lambda p: p[0:11]).sample(Stream(0), 16, 5)
    expected = "Joined.draw_chunks returned 11 prompts of 5 examples and 1 queries in dimension 4; expected 16 prompts"
    assert str(caught.value).startswith(expected)


def test_queries_without_labels_may_be_drawn():
    def unlabelled(prompts: Prompts) -> Prompts:
        labels = prompts.labels.clone()
        labels[:, prompts.num_examples :] = float("nan")
        return replace(prompts, labels=labels)

    assert bool(Own(unlabelled).sample(Stream(0), 64, 5).query_labels.isnan().all())


@pytest.mark.parametrize(
    "use",
    [
        lambda distribution: run(prompts=distribution),
        lambda distribution: run(prompts=distribution, loss_on="queries"),
        lambda distribution: run(prompts=distribution, evaluate_every=4),
        lambda distribution: two_stage(OneLayerMamba(4, 8), distribution, **SIZES, stage1_tasks=16, stage2_tasks=64),
        lambda distribution: joint(OneLayerMamba(4, 8), distribution, **SIZES, steps=2),
        lambda distribution: hinge_sgd(build(), distribution, **SIZES, steps=2),
        lambda distribution: gamma_gradient(OneLayerMamba(4, 8), distribution, Stream(0), 16, 5),
    ],
)
def test_every_training_refuses_too_few_prompts(use: Callable[[PromptDistribution], Any]):
    with pytest.raises(InputError, match=r"Own\.draw_chunks returned 3 prompts of \d examples .* expected 8 prompts"):
        use(Own(lambda p: p[0:3]))


def test_a_law_that_goes_wrong_later_is_noticed():
    """The third step alone draws too few."""
    draws = iter(range(10**6))

    def later(prompts: Prompts) -> Prompts:
        return prompts[0 : 8 if next(draws) < 6 else 7]

    with pytest.raises(InputError, match=r"Own\.draw_chunks returned 7 prompts of 6 examples and 0 queries"):
        run(prompts=Own(later))


class Sampled(OutlierClassification):
    """Says anew how a batch is drawn, and forgets half of it."""

    def sample(self, stream, num_prompts, *arguments, **options):
        return super().sample(stream, num_prompts // 2, *arguments, **options)


def test_a_method_sample_of_the_users_is_checked():
    family = Sampled(4, 2, 0, 1)
    with pytest.raises(InputError, match=r"Sampled\.sample returned 64 prompts of 5 examples .* expected 128 prompts"):
        hinge_sgd(build(), family, **SIZES, steps=2)
    with pytest.raises(InputError, match=r"Sampled\.sample returned 128 prompts of 6 examples .* expected 256 prompts"):
        run(prompts=family, evaluate_every=4)


def test_a_wrong_dimension_is_named():
    class Nowhere(Own):
        ambient_dim = "4"  # type: ignore[assignment]

    with pytest.raises(InputError, match="ambient_dim of Nowhere is '4'; expected an integer >= 1"):
        run(prompts=Nowhere(lambda p: p))
