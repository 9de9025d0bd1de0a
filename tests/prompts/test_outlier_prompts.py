"""Prompts with outliers: what a batch carries, data that do not depend on how they are asked for, other laws."""

import dataclasses
import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.errors import InputError
from iclab.prompts import CHUNK, OutlierClassification, OutlierPrompts, Prompts, SingleIndex
from outlier_support import COEFFICIENTS, STREAM, TEST, TRAINING, clean_targets, draw

LATENTS = ("inputs", "labels", "targets", "tasks", "patterns", "outliers")


def same(one: OutlierPrompts, other: OutlierPrompts) -> bool:
    return one.num_examples == other.num_examples and all(
        torch.equal(getattr(one, name), getattr(other, name)) for name in LATENTS
    )


# What a batch carries


def test_latents_are_cut_joined_and_converted_with_the_rest():
    p = draw()
    short = p.prefix(3)
    assert isinstance(short, OutlierPrompts)
    for name in ("patterns", "outliers", "labels"):
        whole = getattr(p, name)
        assert torch.equal(getattr(short, name), torch.cat([whole[:, :3], whole[:, 7:]], 1))
    assert torch.equal(short.tasks, p.tasks)
    assert same(Prompts.cat([p[0:9], p[9:10], p[10:40]]), p)
    half = p.to(torch.float16)
    assert (half.inputs.dtype, half.tasks.dtype, half.outliers.dtype) == (torch.float16, torch.int64, torch.bool)
    assert torch.equal(half.patterns, p.patterns)
    meta = p.to("meta")
    assert {getattr(meta, name).device.type for name in LATENTS} == {"meta"}
    assert p.prefix(7) is p


def test_joining_with_prompts_that_have_no_latents_drops_them():
    p = draw()
    plain = SingleIndex(30, 2).sample(STREAM, 3, 7, 2, dtype=torch.float64)
    for batches in ([p, plain], [plain, p]):
        joined = Prompts.cat(batches)
        assert type(joined) is Prompts
        assert joined.directions is None
        assert joined.batch_size == 43


def test_views_of_the_latents():
    p = draw()
    assert torch.equal(p.example_outliers, p.outliers[:, :7])
    assert p.same_pattern.shape == (40, 2, 7)
    for b, q, n in itertools.product(range(3), range(2), range(7)):
        assert bool(p.same_pattern[b, q, n]) == bool(p.patterns[b, 7 + q] == p.patterns[b, n])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"tasks": torch.zeros(40, 3, dtype=torch.int64)}, r"tasks are of torch.int64 and shape \(40, 3\)"),
        ({"tasks": torch.zeros(40, 2)}, "tasks are of torch.float32"),
        ({"tasks": None}, "tasks are NoneType"),
        ({"patterns": torch.zeros(40, 7, dtype=torch.int64)}, "patterns are"),
        ({"outliers": torch.zeros(40, 9, dtype=torch.int64)}, "outliers are of torch.int64"),
        ({"targets": None}, "without targets"),
        ({"tasks": torch.zeros(40, 2, dtype=torch.int64)}, "same pattern for"),
        ({"patterns": torch.full((40, 9), 77)}, "that its task lacks"),
    ],
)
def test_wrong_latents_are_refused(change: dict[str, Any], word: str):
    with pytest.raises(InputError, match=word):
        dataclasses.replace(draw(), **change)


def test_targets_that_contradict_their_patterns_are_refused():
    p = draw()
    with pytest.raises(InputError, match="contradicts its pattern"):
        dataclasses.replace(p, targets=-clean_targets(p))
    with pytest.raises(InputError, match="contradicts its pattern"):
        dataclasses.replace(p, tasks=p.tasks.flip(1))
    assert same(dataclasses.replace(p), p)


# Data that do not depend on how they are asked for


@pytest.mark.parametrize("distribution", [TRAINING, TEST])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_prompt_does_not_depend_on_the_batch_around_it(distribution: OutlierClassification, data: st.DataObject):
    whole = distribution.sample(STREAM, 300, 7, 2)
    start = data.draw(st.integers(0, 299))
    count = data.draw(st.integers(1, 300 - start))
    assert same(distribution.sample(STREAM, count, 7, 2, start=start), whole[start : start + count])


@pytest.mark.parametrize(
    "distribution", [TRAINING, TEST, TEST.replace(label_rule=lambda y, kinds, u: y * (1 - 2 * (kinds == 0)))]
)
def test_a_batch_is_its_chunks(distribution: OutlierClassification):
    buffer = torch.full((CHUNK, 9, 30), float("nan"))
    whole = distribution.sample(STREAM, 24, 7, 2)
    for chunk in range(3):
        alone = distribution.draw_chunks([STREAM.at(chunk)], 7, 2, torch.float32, buffer)
        assert same(alone, whole[8 * chunk : 8 * chunk + 8])
        assert alone.inputs.data_ptr() == buffer.data_ptr()


def test_a_prompt_does_not_depend_on_the_number_of_threads():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = TEST.sample(STREAM, 600, 20, 1)
        torch.set_num_threads(2)
        assert same(TEST.sample(STREAM, 600, 20, 1), one)
    finally:
        torch.set_num_threads(before)


def test_a_prompt_has_the_same_task_at_every_length_and_precision():
    tasks = draw(TEST, 20, 50, 1).tasks
    for examples, queries, dtype in [(0, 1, torch.float32), (3, 0, torch.bfloat16), (0, 0, torch.float64)]:
        p = TEST.sample(STREAM, 20, examples, queries, dtype=dtype)
        assert torch.equal(p.tasks, tasks)
        assert p.inputs.dtype == p.labels.dtype == dtype


def test_laws_over_the_same_patterns_and_tasks_share_all_but_the_outliers():
    one = draw(TRAINING)
    distribution = TRAINING.replace(
        outlier_fraction=0.9, label_rule="flipped", coefficients=COEFFICIENTS, placement="closest"
    )
    other = draw(distribution)
    assert torch.equal(one.patterns, other.patterns)
    clean = ~(one.outliers | other.outliers)
    assert clean.sum() > 80
    assert torch.equal(one.inputs[clean], other.inputs[clean])


# Another law over the same patterns


def test_replacing_keeps_the_patterns():
    assert TEST.relevant_patterns is TRAINING.relevant_patterns
    assert TEST.outlier_patterns is TRAINING.outlier_patterns
    assert TRAINING.rules.fraction == 0.4
    assert TEST.rules.fraction == 0.35
    assert same(draw(TEST.replace(**{k: v for k, v in TRAINING.settings().items() if k in TEST._options})), draw())
    assert same(draw(OutlierClassification(**TEST.settings())), draw(TEST))


@pytest.mark.parametrize("name", ["ambient_dim", "relevant", "irrelevant", "outliers", "norm", "outlier_norm", "seed"])
def test_replacing_what_makes_the_patterns_is_refused(name: str):
    with pytest.raises(InputError, match=f"{name} would change them"):
        TRAINING.replace(**{name: 4})


def test_replacing_an_unknown_argument_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'outlier_size'"):
        TRAINING.replace(outliersize=2.0)


def test_inputs_beyond_the_precision_are_refused():
    distribution = OutlierClassification(norm=1e39)
    with pytest.raises(InputError, match=r"norm is 1e\+39, which torch.float32 cannot hold"):
        distribution.sample(STREAM, 8, 3)
    assert math.isclose(
        float(distribution.sample(STREAM, 8, 3, dtype=torch.float64).inputs.norm(dim=-1).min()), 1e39, rel_tol=0.2
    )


def test_the_paper_s_sizes_are_the_default():
    distribution = OutlierClassification()
    assert (distribution.ambient_dim, len(distribution.relevant_patterns), len(distribution.irrelevant_patterns)) == (
        30,
        6,
        10,
    )
    assert len(distribution.outlier_patterns) == 3
    assert len(distribution.task_pairs) == 30
    assert (distribution.outlier_size, distribution.irrelevant_range) == (2.0, 0.5)
    assert math.isclose(float(distribution.relevant_patterns[0].norm()), 3)
