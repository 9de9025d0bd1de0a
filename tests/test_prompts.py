"""`Prompts`: validation, slicing and users' own data."""

import dataclasses

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.prompts import Prompts, SingleIndex, Stream

X, Y, Q = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1.0, -1.0, 2.0], [[7.0, 8.0]]


def draw(batch: int = 5, count: int = 4, queries: int = 2, dim: int = 3, seed: int = 0) -> Prompts:
    law = SingleIndex(dim, 2, "he2", noise=0.2)
    return law.sample(Stream(seed).child("prompts"), batch, count, queries, dtype=torch.float64)


def same(one: Prompts, other: Prompts) -> bool:
    fields = ("inputs", "labels", "targets", "directions")
    return one.num_examples == other.num_examples and all(
        torch.equal(getattr(one, f), getattr(other, f)) for f in fields
    )


def test_views_of_a_batch():
    p = draw()
    assert (p.batch_size, p.num_examples, p.num_queries, p.ambient_dim) == (5, 4, 2, 3)
    assert torch.equal(torch.cat([p.examples, p.queries], 1), p.inputs)
    assert torch.equal(torch.cat([p.example_labels, p.query_labels], 1), p.labels)
    assert p.targets is not None
    assert torch.equal(p.query_targets, p.targets[:, 4:])


def test_a_batch_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        draw().num_examples = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"inputs": torch.zeros(5, 6)}, "inputs"),
        ({"inputs": torch.zeros(5, 6, 0)}, "dimension 0"),
        ({"labels": torch.zeros(5, 5)}, "labels"),
        ({"targets": torch.zeros(5, 5)}, "targets"),
        ({"directions": torch.zeros(5, 4)}, "directions"),
        ({"directions": torch.zeros(4, 3)}, "directions"),
        ({"num_examples": 7}, "num_examples"),
        ({"num_examples": -1}, "num_examples"),
        ({"num_examples": 2.0}, "num_examples"),
        ({"num_examples": True}, "num_examples"),
    ],
)
def test_wrong_shapes_are_refused(change, word):
    with pytest.raises(InputError, match=word):
        dataclasses.replace(draw(), **change)


@pytest.mark.parametrize("count", range(5))
def test_a_prefix_keeps_the_beginning_and_all_queries(count):
    p = draw()
    short = p.prefix(count)
    assert short.num_examples == count
    assert torch.equal(short.examples, p.examples[:, :count])
    assert torch.equal(short.example_labels, p.example_labels[:, :count])
    assert torch.equal(short.queries, p.queries)
    assert torch.equal(short.query_labels, p.query_labels)
    assert torch.equal(short.query_targets, p.query_targets)
    assert short.directions is p.directions


@pytest.mark.parametrize("count", [5, -1, 1.0])
def test_a_prefix_outside_the_context_is_refused(count):
    with pytest.raises(InputError, match="num_examples"):
        draw().prefix(count)


def test_cutting_and_joining_are_inverse():
    p = draw()
    assert same(Prompts.cat([p[0:2], p[2:3], p[3:5]]), p)
    assert p[5:9].batch_size == 0
    with pytest.raises(InputError, match="slice"):
        p[0]  # type: ignore[index]


def test_joining_drops_what_one_batch_lacks():
    p = draw()
    joined = Prompts.cat([p, dataclasses.replace(p, targets=None)])
    assert joined.targets is None
    assert joined.directions is not None
    with pytest.raises(InputError, match="no clean targets"):
        _ = joined.query_targets


@pytest.mark.parametrize("other", [(5, 5, 1, 3), (5, 5, 2, 3), (5, 4, 3, 3), (5, 4, 2, 2)])
def test_joining_different_layouts_is_refused(other):
    # The first case has the same number of rows and another context length.
    with pytest.raises(InputError, match="same N, Q and d"):
        Prompts.cat([draw(), draw(*other)])


def test_joining_nothing_is_refused():
    with pytest.raises(InputError, match="no batches"):
        Prompts.cat([])


def test_conversion_reaches_every_tensor():
    p = draw().to(torch.float32)
    assert p.targets is not None
    assert p.directions is not None
    assert {t.dtype for t in (p.inputs, p.labels, p.targets, p.directions)} == {torch.float32}
    assert dataclasses.replace(p, targets=None, directions=None).to(torch.float64).targets is None


def test_from_arrays_takes_one_prompt_or_a_batch():
    one = Prompts.from_arrays(X, Y, Q, [3.0])
    assert one.inputs.tolist() == [[*X, *Q]]
    assert one.labels.tolist() == [[*Y, 3.0]]
    assert one.inputs.dtype == torch.float64
    batch = Prompts.from_arrays(np.array([X, X]), torch.tensor([Y, Y]), np.array([Q, Q], dtype=np.float32))
    assert (batch.batch_size, batch.num_examples, batch.num_queries) == (2, 3, 1)
    assert torch.isnan(batch.query_labels).all()
    assert Prompts.from_arrays(X, Y, Q, dtype=torch.float32).inputs.dtype == torch.float32


def test_from_arrays_takes_an_empty_context():
    empty = Prompts.from_arrays(np.zeros((0, 2)), np.zeros(0), Q)
    assert (empty.num_examples, empty.num_queries) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((X, Y[:2], Q), "y has shape"),
        ((X, [Y, Y], Q), "y has shape"),
        ((X, Y, [[7.0]]), "x_query has shape"),
        ((X, Y, [Q, Q]), "x_query has shape"),
        ((X, Y, Q, [1.0, 2.0]), "y_query has shape"),
        (([1.0, 2.0, 3.0], Y, Q), "x has 1 dimensions"),
        (([[X]], Y, Q), "x has 4 dimensions"),
        (([[1.0, 2.0], [3.0]], Y, Q), "x is no rectangular array"),
        ((X, ["a", "b", "c"], Q), "y is no rectangular array"),
        ((None, Y, Q), "x"),
        (([[1j, 2.0]] * 3, Y, Q), "x is no rectangular array"),
        ((torch.tensor([[1j, 2.0]] * 3), Y, Q), "x is no rectangular array"),
        ((X, [1.0, float("nan"), 2.0], Q), r"y is nan at \(0, 1\)"),
        (([[1.0, 2.0], [float("inf"), 0.0], [0.0, 0.0]], Y, Q), r"x is inf at \(0, 1, 0\)"),
        ((X, Y, [[float("-inf"), 0.0]]), r"x_query is -inf at \(0, 0, 0\)"),
        ((X, Y, Q, [float("nan")]), "y_query is nan"),
    ],
)
def test_from_arrays_says_what_is_wrong(arguments, word):
    with pytest.raises(InputError, match=word):
        Prompts.from_arrays(*arguments)


def test_from_arrays_refuses_numbers_that_the_dtype_cannot_hold():
    with pytest.raises(InputError, match="y is inf"):
        Prompts.from_arrays(X, [1e300, 0.0, 0.0], Q, dtype=torch.float32)
