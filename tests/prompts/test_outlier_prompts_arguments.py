"""What laws of two-class prompts make of arrays, tensors, generators and functions that users hand them."""

import inspect
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.prompts import OutlierClassification, OutlierPrompts, OutlierRules, Stream, VectorClassification, task_pairs
from outlier_support import COEFFICIENTS, TRAINING, draw

VECTORS = np.random.default_rng(5).normal(size=(12, 3)) + 2.0
CLASSES = ["a", "b", "c"] * 4
FIELDS = ("inputs", "labels", "targets", "tasks", "patterns", "outliers")


def distribution_of_vectors(**arguments: Any) -> VectorClassification:
    given = {"vectors": VECTORS, "classes": CLASSES, "outlier_fraction": 0.5} | arguments
    return OutlierClassification.from_vectors(**given)


def prompts_of(distribution: OutlierClassification | VectorClassification) -> OutlierPrompts:
    return distribution.sample(Stream(8), 24, 6, dtype=torch.float64)


def same(one: OutlierPrompts, other: OutlierPrompts) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in FIELDS)


# Label rules


def in_place(targets: torch.Tensor, kinds: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    targets[kinds == 0] *= -1
    targets[uniforms < 0.2] = 1
    kinds.zero_()
    uniforms.zero_()
    return targets


def out_of_place(targets: torch.Tensor, kinds: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    return torch.where(uniforms < 0.2, 1.0, torch.where(kinds == 0, -targets, targets))


def test_a_label_rule_that_works_in_place_changes_nothing_but_its_labels():
    p = draw(TRAINING.replace(label_rule=in_place), 100, 12)
    assert p.targets is not None
    assert torch.equal(p.targets == 1, p.patterns == p.tasks[:, :1])
    assert torch.equal(p.labels[~p.outliers], p.targets[~p.outliers])
    assert 0.2 < float((p.labels != p.targets)[p.outliers].double().mean()) < 0.5
    assert same(p, draw(TRAINING.replace(label_rule=out_of_place), 100, 12))
    targets = torch.ones(8, 3)
    OutlierRules(label_rule=in_place).labels(targets, torch.zeros(8, 3, dtype=torch.int64), torch.ones(8, 3))
    assert torch.equal(targets, torch.ones(8, 3))


def test_a_label_rule_may_return_the_same_tensor_at_each_call():
    shown = torch.empty(8, 6, dtype=torch.float64)

    def reused(targets: torch.Tensor, kinds: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        return shown.copy_(-targets)

    distribution = TRAINING.replace(label_rule=reused)
    assert same(prompts_of(distribution), prompts_of(TRAINING.replace(label_rule="flipped")))


@pytest.mark.parametrize("rule", [lambda targets: targets, lambda: 1, float])
def test_a_label_rule_with_other_arguments_is_refused(rule: Any):
    with pytest.raises(
        InputError, match=r"label_rule takes the arguments \(.*\); expected a function of \(targets, kin"
    ):
        TRAINING.replace(label_rule=rule)


def test_complex_labels_are_refused():
    with pytest.raises(InputError, match="label other than"):
        draw(TRAINING.replace(label_rule=lambda targets, kinds, uniforms: targets + 0j))


# What is kept


def test_generators_are_kept_as_what_they_gave():
    distribution = OutlierClassification(
        tasks=(pair for pair in [(2, 0), (0, 1)]),
        coefficients=((number for number in row) for row in COEFFICIENTS),
        outlier_fraction=0.5,
    )
    listed = OutlierClassification(tasks=[(0, 1), (2, 0)], coefficients=COEFFICIENTS, outlier_fraction=0.5)
    assert distribution.task_pairs == distribution.replace(outlier_size=1.0).task_pairs == [(0, 1), (2, 0)]
    for again in (distribution, distribution.replace(), OutlierClassification(**distribution.settings())):
        assert same(prompts_of(again), prompts_of(listed))
    vectors = distribution_of_vectors(tasks=iter([(1, 0)]), coefficients=(row for row in [(0.5, 2.0)]), trigger=2)
    assert same(prompts_of(vectors.replace()), prompts_of(vectors))
    assert vectors.settings()["coefficients"] == ((0.5, 2.0),)


def test_a_law_shares_no_memory_with_its_arguments():
    vectors, tasks, coefficients, size = VECTORS.copy(), [[0, 1]], np.array([[1.0, 0.5]]), np.array(2.0)
    trigger = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=torch.float64)
    distribution = distribution_of_vectors(
        vectors=vectors, norm=None, tasks=tasks, coefficients=coefficients, trigger=trigger, outlier_size=size
    )
    before = prompts_of(distribution)
    for array in (vectors, coefficients, size):
        array[...] = 7.0
    trigger.zero_()
    tasks[0][1] = 2
    assert same(prompts_of(distribution.replace()), before)


def test_arrays_and_tensors_of_every_layout_are_read():
    expected = prompts_of(distribution_of_vectors(trigger=2, tasks=3, target_label=-1, seed=4))
    parameter = torch.nn.Parameter(torch.from_numpy(VECTORS))
    forms = [VECTORS[::-1].copy()[::-1], np.asfortranarray(VECTORS).astype(">f8"), VECTORS.tolist(), parameter]
    scalars = [np.array, torch.tensor, np.int64, int]
    for form, scalar in zip(forms, scalars, strict=True):
        distribution = distribution_of_vectors(
            vectors=form,
            trigger=scalar(2),
            tasks=scalar(3),
            target_label=scalar(-1),
            seed=scalar(4),
            outlier_fraction=Fraction(1, 2),
        )
        assert torch.equal(distribution.vectors, distribution_of_vectors().vectors)
        assert same(prompts_of(distribution), expected)
    read_only = VECTORS.copy()
    read_only.setflags(write=False)
    assert torch.equal(distribution_of_vectors(vectors=read_only).vectors, distribution_of_vectors().vectors)
    assert task_pairs({(1, 0), (0, 1)}, 2, Stream(0)) == [(0, 1), (1, 0)]


# What is refused

HOSTILE = [
    1j,
    np.complex64(1),
    10**400,
    -(10**5000),
    Fraction(10**400),
    [1, [2, 3]],
    [[10**400] * 3],
    [(10**400, 0)],
    [np.eye(3), "two\nlines"],
    {1: 2},
    b"x",
    np.array([1, 2]),
    np.array(["a", "b"]),
    np.array(1j),
    np.array("x"),
    np.zeros((2, 2, 2)),
    np.datetime64("2020"),
    np.ma.masked,
    np.ma.array([1, 2], mask=[False, True]),
    [np.array(3)],
    [torch.tensor(3)],
    [(torch.tensor(0.5), 1)],
    [(np.array([1, 2]), 0)],
    [{0, 1}],
    torch.tensor(0.5j),
    torch.tensor([1, 2]),
    torch.ones(4, dtype=torch.bfloat16),
    torch.ones(2, 2, requires_grad=True),
    torch.ones((), device="meta"),
    torch.ones(3, device="meta"),
    torch.eye(4).to_sparse(),
]


@pytest.mark.parametrize("value", HOSTILE, ids=[str(number) for number in range(len(HOSTILE))])
def test_what_no_argument_can_be_is_refused_in_one_line(value: object):
    builders: list[tuple[Any, Any]] = [
        (OutlierClassification, OutlierClassification),
        (distribution_of_vectors, VectorClassification),
        (OutlierRules, OutlierRules),
        (distribution_of_vectors().split, distribution_of_vectors().split),
    ]
    for build, described in builders:
        for name in inspect.signature(described).parameters:
            with pytest.raises(InputError) as caught:
                build(**{name: value})
            message = str(caught.value)
            assert "\n" not in message
            assert len(message) < 250


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"coefficients": torch.tensor(3.0)}, r"coefficients are tensor\(3.\); expected a list of vectors of length 3"),
        ({"coefficients": torch.ones(3)}, "number 0 of the coefficients is 1.0"),
        ({"coefficients": [[10**400, 0, 0]]}, "coefficients has a number beyond float64"),
        ({"target_label": np.array([1, 2])}, r"target_label is an array of shape \(2,\); expected one value"),
        ({"target_label": 1 + 0j}, r"target_label is \(1\+0j\); expected 1 or -1"),
        ({"target_label": np.True_}, "target_label is .*True_?; expected 1 or -1"),
        ({"norm": True}, "norm is True"),
        ({"norm": "3"}, "norm is '3'"),
        ({"norm": 10**400}, "norm is a number beyond float64"),
        ({"outlier_size": np.ma.masked}, "outlier_size is masked"),
        ({"relevant": torch.tensor(3.5)}, "relevant is 3.5; expected an integer"),
        ({"seed": torch.ones((), device="meta")}, "seed is a tensor on meta"),
        ({"tasks": torch.tensor(7)}, "tasks is 7 for 6 patterns"),
        ({"tasks": [{0, 1}]}, r"a task is \{0, 1\}; expected a pair"),
        ({"tasks": [(0, np.array([1, 2]))]}, r"a pattern of tasks is an array of shape \(2,\)"),
    ],
)
def test_the_message_says_what_was_found(arguments: dict[str, Any], word: str):
    with pytest.raises(InputError, match=word):
        OutlierClassification(**arguments)


def test_arguments_of_the_other_law_are_refused():
    with pytest.raises(
        InputError, match="an argument of from_vectors is 'irrelevant_range'; expected one of vectors, "
    ):
        distribution_of_vectors(irrelevant_range=1)
