"""`Prompts`: validation, slicing and users' own data."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.prompts import Prompts, SingleIndex, Stream

X, Y, Q = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1.0, -1.0, 2.0], [[7.0, 8.0]]


def draw(batch: int = 5, count: int = 4, queries: int = 2, dim: int = 3, seed: int = 0) -> Prompts:
    distribution = SingleIndex(dim, 2, "he2", noise=0.2)
    return distribution.sample(Stream(seed).child("prompts"), batch, count, queries, dtype=torch.float64)


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
        (([[1j, 2.0]] * 3, Y, Q), "x is complex"),
        ((torch.tensor([[1j, 2.0]] * 3), Y, Q), "x is complex"),
        ((np.array(X), np.array(Y) + 0j, Q), "y is complex"),
        ((X, [1.0, 2j, 3.0], Q), "y is complex"),
        ((X, Y, np.array(Q, dtype=complex)), "x_query is complex"),
        ((X, np.ma.masked_array(Y, [False, True, False]), Q), "y has masked entries"),
        ((np.ma.masked_greater(X, 5.5), Y, Q), "x has masked entries"),
        (([X, np.ma.masked_greater(X, 5.5)], [Y, Y], [Q, Q]), "x has masked entries"),
        ((X, [1.0, np.ma.masked, 2.0], Q), "y has masked entries"),
        ((X, ["1", "2", "3"], Q), "y is no rectangular array"),
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
    with pytest.raises(InputError, match=r"y is 1e\+300 at \(0, 0\), which torch.float32 cannot hold"):
        Prompts.from_arrays(X, [1e300, 0.0, 0.0], Q, dtype=torch.float32)


def test_masked_arrays_without_a_masked_entry_are_arrays():
    masked = np.ma.masked_array(Y, [False, False, False])
    assert torch.equal(Prompts.from_arrays(X, masked, Q, [3.0]).labels, Prompts.from_arrays(X, Y, Q, [3.0]).labels)


def replaced(prompts: Prompts, changes: dict[str, Any]) -> Prompts:
    return dataclasses.replace(prompts, **changes)


def filled(tensor: torch.Tensor | None, place: tuple[int, ...], value: float) -> torch.Tensor:
    assert tensor is not None
    changed = tensor.clone()
    changed[place] = value
    return changed


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    ("field", "place", "word"),
    [
        ("inputs", (3, 1, 2), r"an input is .* at \(3, 1, 2\)"),
        ("inputs", (0, 5, 0), r"an input is .* at \(0, 5, 0\)"),
        ("labels", (2, 3), r"a context label is .* at \(2, 3\)"),
        ("targets", (2, 3), r"a context target is .* at \(2, 3\)"),
        ("targets", (2, 4), r"a query target is .* at \(2, 0\)"),
        ("directions", (1, 0), "direction 1 has length"),
    ],
)
def test_values_that_are_not_finite_are_refused(field, place, word, value):
    p = draw()
    with pytest.raises(InputError, match=word):
        replaced(p, {field: filled(getattr(p, field), place, value)})


def test_query_labels_may_be_missing_but_not_infinite():
    p = draw()
    hidden = dataclasses.replace(p, labels=filled(p.labels, (2, 4), float("nan")))
    assert bool(torch.isnan(hidden.query_labels[2, 0]))
    # A target may be missing where the label is, and nowhere else.
    assert dataclasses.replace(hidden, targets=filled(p.targets, (2, 4), float("nan"))).targets is not None
    with pytest.raises(InputError, match="a query target is nan"):
        dataclasses.replace(hidden, targets=filled(p.targets, (2, 5), float("nan")))
    with pytest.raises(InputError, match=r"a query label is inf at \(2, 0\)"):
        dataclasses.replace(p, labels=filled(p.labels, (2, 4), float("inf")))


def test_large_values_whose_sum_overflows_are_finite():
    p = draw().to(torch.float32)
    assert dataclasses.replace(p, inputs=torch.full_like(p.inputs, 3e38)).batch_size == 5


@pytest.mark.parametrize(
    ("dtype", "wrong", "right"),
    [
        (torch.float64, 1e-5, 1e-7),
        (torch.float32, 1e-5, 1e-6),
        (torch.float16, 0.05, 1e-3),
        (torch.bfloat16, 0.5, 0.01),
    ],
)
def test_directions_have_length_one_to_within_their_dtype(dtype, wrong, right):
    p = draw().to(dtype)
    assert p.directions is not None
    with pytest.raises(InputError, match="direction 0 has length"):
        dataclasses.replace(p, directions=p.directions * (1 + wrong))
    unit = draw().directions
    assert unit is not None
    dataclasses.replace(p, directions=(unit * (1 + right)).to(dtype))
    if dtype == torch.float32:  # made in single precision, converted by hand
        dataclasses.replace(p, directions=unit.to(dtype).double())


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": np.zeros((5, 6, 3))},
        {"inputs": torch.zeros(5, 6, 3, dtype=torch.int64)},
        {"labels": torch.zeros(5, 6, dtype=torch.complex64)},
        {"labels": None},
        {"targets": [[0.0] * 6] * 5},
        {"directions": torch.ones(5, 3, dtype=torch.bool)},
    ],
)
def test_only_real_floating_point_tensors_are_taken(change):
    with pytest.raises(InputError, match=r"expected a real floating point tensor"):
        dataclasses.replace(draw(), **change)


def test_trusted_values_are_not_looked_at_but_shapes_are():
    p = draw()
    bad = filled(p.inputs, (0, 0, 0), float("nan"))
    taken = dataclasses.replace(p, inputs=bad, trusted=True)
    assert bool(torch.isnan(taken[0:1].inputs[0, 0, 0]))
    with pytest.raises(InputError, match="an input is nan"):
        dataclasses.replace(taken)
    with pytest.raises(InputError, match="labels have shape"):
        dataclasses.replace(p, labels=p.labels[:, 1:], trusted=True)


def test_drawing_and_cutting_do_not_pay_for_a_second_look(monkeypatch):
    def refuse(self: Prompts) -> None:
        raise AssertionError("the values were looked at again")

    monkeypatch.setattr(Prompts, "_check_values", refuse)
    p = draw(20)
    assert Prompts.cat([p[0:3], p[3:8].prefix(4)]).to(torch.float32).prefix(2).num_examples == 2
    with pytest.raises(AssertionError, match="again"):
        Prompts(p.inputs, p.labels, 4)


def test_labels_that_the_dtype_cannot_hold_are_refused_when_drawn():
    distribution = SingleIndex(3, 2, "1e39*tanh(z)")
    with pytest.raises(InputError, match=r"the size of the link is .*e\+38, which torch.float32 cannot hold"):
        distribution.sample(Stream(0), 8, 4, 1)
    assert distribution.sample(Stream(0), 8, 4, 1, dtype=torch.float64).batch_size == 8
