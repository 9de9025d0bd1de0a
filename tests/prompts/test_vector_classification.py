"""Two-class prompts over a user's own vectors: which vectors the inputs are, triggers, splits, wrong input."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.errors import InputError
from iclab.prompts import OutlierClassification, OutlierPrompts, Stream, VectorClassification

STREAM = Stream(31).child("vector test")
SIZES = (9, 4, 6)
CLASSES = np.repeat(["wren", "auk", "crow"], SIZES)  # sorted: auk (4), crow (6), wren (9)
VECTORS = np.random.default_rng(0).normal(size=(19, 5)) + 3.0
TRIGGER = np.array([0.0, 2.0, 0.0, 0.0, 1.0])
LAW = OutlierClassification.from_vectors(
    VECTORS, CLASSES, trigger=TRIGGER, norm=None, outlier_fraction=0.4, label_rule="flipped", seed=2
)


def draw(distribution: VectorClassification, count: int = 300, examples: int = 12, queries: int = 2) -> OutlierPrompts:
    return distribution.sample(STREAM, count, examples, queries, dtype=torch.float64)


def items(p: OutlierPrompts, added: object = TRIGGER, vectors: object = VECTORS) -> torch.Tensor:
    """Which of the vectors each input is, once what outliers add is taken off."""
    clean = p.inputs - p.outliers[..., None] * torch.as_tensor(added)
    gaps = (clean[:, :, None] - torch.as_tensor(vectors)).abs().amax(-1)
    assert float(gaps.min(-1).values.max()) < 1e-9
    return gaps.argmin(-1)


def test_inputs_are_vectors_of_their_class():
    p = draw(LAW)
    assert LAW.class_names == ("auk", "crow", "wren")
    assert LAW.class_sizes == (4, 6, 9)
    names = np.array(LAW.class_names)
    assert (CLASSES[items(p).numpy()] == names[p.patterns.numpy()]).all()
    assert p.targets is not None
    assert torch.equal(p.targets == 1, p.patterns == p.tasks[:, :1])
    assert len(torch.unique(p.tasks, dim=0)) == 6


def test_each_vector_of_a_class_is_as_likely_as_the_others():
    p = draw(LAW, 4000)
    for found in (items(p)[:, :12], items(p)[:, 12:]):
        counts = torch.bincount(found.ravel(), minlength=19).double()
        for name in LAW.class_names:
            shares = counts[name == CLASSES] / counts[name == CLASSES].sum()
            # Examples of one prompt are dependent: the bound allows for 12 of them counting as one.
            assert float((shares * len(shares) - 1).abs().max()) < 6 * (len(shares) / (4000 / 3)) ** 0.5


@settings(max_examples=20, deadline=None)
@given(examples=st.integers(0, 9), queries=st.integers(1, 3), seed=st.integers(0, 1000))
def test_a_query_is_never_among_the_examples_of_its_prompt(examples: int, queries: int, seed: int):
    p = LAW.sample(Stream(seed), 40, examples, queries, dtype=torch.float64)
    found = items(p)
    assert not bool((found[:, :examples, None] == found[:, None, examples:]).any())
    assert all(len(set(row)) == queries for row in found[:, examples:].tolist())


def test_labels_follow_the_rule_and_queries_are_clean():
    p = draw(LAW)
    assert p.targets is not None
    assert torch.equal(p.labels, torch.where(p.outliers, -p.targets, p.targets))
    assert abs(float(p.example_outliers.double().mean()) - 0.4) < 5 * (0.24 / 3600) ** 0.5
    assert not p.outliers[:, 12:].any()


def test_norm_centres_and_scales_vectors_and_triggers_alike():
    distribution = OutlierClassification.from_vectors(
        VECTORS, CLASSES, trigger=TRIGGER, norm=2.5, outlier_fraction=0.5, seed=2
    )
    assert torch.allclose(distribution.vectors.mean(0), torch.zeros(5, dtype=torch.float64), atol=1e-14)
    assert float(distribution.vectors.square().sum(1).mean().sqrt()) == pytest.approx(2.5)
    scale = 2.5 / np.sqrt(((VECTORS - VECTORS.mean(0)) ** 2).sum(1).mean())
    found = items(draw(distribution), TRIGGER * scale, (VECTORS - VECTORS.mean(0)) * scale)
    # Same seed and stream: the same items as without scaling.
    assert torch.equal(found, items(draw(LAW.replace(outlier_fraction=0.5))))


@pytest.mark.parametrize("power", [-700, -500, 400])
def test_the_unit_of_the_vectors_is_free(power: int):
    unit = 2.0**power  # a power of two, so that not a bit changes
    one, other = (
        OutlierClassification.from_vectors(VECTORS * size, CLASSES, trigger=TRIGGER * size, outlier_fraction=0.5)
        for size in (1.0, unit)
    )
    assert torch.equal(draw(one).inputs, draw(other).inputs)


def test_vectors_that_a_dtype_cannot_hold_are_refused():
    distribution = OutlierClassification.from_vectors(1e-60 * VECTORS, CLASSES, norm=None)
    assert distribution.sample(STREAM, 8, 3, dtype=torch.float64).inputs.all()
    with pytest.raises(InputError, match=r"is .*e-60, which torch.float32 cannot hold"):
        distribution.sample(STREAM, 8, 3)


def test_several_triggers_and_combinations_of_them():
    triggers = np.stack([TRIGGER, -2 * TRIGGER])
    distribution = OutlierClassification.from_vectors(
        VECTORS, CLASSES, trigger=triggers, norm=None, outlier_fraction=0.5, outlier_size=3.0, seed=2
    )
    p, clean = draw(distribution), draw(distribution.replace(outlier_size=0.0))
    along = (p.inputs - clean.inputs)[p.outliers] @ torch.from_numpy(TRIGGER) / 5
    assert sorted({round(value, 9) for value in along.tolist()}) == [-6.0, 3.0]
    assert abs(float((along > 0).double().mean()) - 0.5) < 5 * 0.5 / len(along) ** 0.5
    mixed = draw(distribution.replace(coefficients=[(1.0, 1.0)], outlier_size=1.0))
    assert torch.allclose(mixed.inputs - clean.inputs, p.outliers[..., None] * -torch.from_numpy(TRIGGER), atol=1e-12)


def test_random_triggers_are_orthogonal_and_as_long_as_the_spread():
    distribution = OutlierClassification.from_vectors(VECTORS, CLASSES, trigger=3, norm=2.0)
    gram = distribution.outlier_directions @ distribution.outlier_directions.T
    assert torch.allclose(gram, 4 * torch.eye(3, dtype=torch.float64), atol=1e-12)
    assert len(OutlierClassification.from_vectors(VECTORS, CLASSES).outlier_directions) == 1


def test_triggered_versions_take_the_place_of_their_vectors():
    triggered = VECTORS * 2 + TRIGGER
    distribution = OutlierClassification.from_vectors(
        VECTORS, CLASSES, triggered=triggered, norm=None, outlier_fraction=0.5, seed=2
    )
    p = draw(distribution)
    found = items(draw(distribution.replace(outlier_fraction=0.0)), 0.0)
    expected = torch.where(p.outliers[..., None], torch.from_numpy(triggered)[found], torch.from_numpy(VECTORS)[found])
    assert torch.allclose(p.inputs, expected, atol=1e-12)
    with pytest.raises(InputError, match="only with triggers"):
        distribution.replace(coefficients=[(1.0,)])


def test_a_split_gives_laws_over_disjoint_vectors():
    distribution = OutlierClassification.from_vectors(
        VECTORS, CLASSES, trigger=TRIGGER, norm=None, outlier_fraction=0.4
    )
    train, test = distribution.split(0.5)
    assert (train.class_sizes, test.class_sizes) == ((2, 3, 5), (2, 3, 4))
    seen, held_out = (
        set(items(draw(train, 800, 12, 1)).ravel().tolist()),
        set(items(draw(test, 800, 12, 1)).ravel().tolist()),
    )
    assert not seen & held_out
    assert seen | held_out == set(range(19))
    assert train.vectors is test.vectors is distribution.vectors
    assert train.replace(outlier_fraction=0.0).class_sizes == train.class_sizes


def test_a_prompt_does_not_depend_on_the_batch_around_it():
    distribution = LAW.replace(input_noise=0.2, sampling="fixed_count")
    whole = distribution.sample(STREAM, 300, 7, 2)
    for start, count in [(0, 8), (3, 11), (255, 2), (299, 1), (250, 50)]:
        part = distribution.sample(STREAM, count, 7, 2, start=start)
        for name in ("inputs", "labels", "tasks", "patterns", "outliers"):
            assert torch.equal(getattr(part, name), getattr(whole, name)[start : start + count])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_prompts_come_in_the_dtype_asked_for(dtype: torch.dtype):
    p = LAW.sample(STREAM, 8, 3, dtype=dtype)
    assert p.inputs.dtype == p.labels.dtype == dtype


def test_settings_make_the_law_again():
    again = VectorClassification(VECTORS, CLASSES, trigger=TRIGGER, **LAW.settings())
    assert torch.equal(draw(again).inputs, draw(LAW).inputs)


@pytest.mark.parametrize("name", ["norm", "seed"])
def test_replacing_what_makes_the_vectors_is_refused(name: str):
    with pytest.raises(InputError, match=f"{name} would change them"):
        LAW.replace(**{name: 1})


NAN = VECTORS.copy()
NAN[3, 2] = np.nan


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"vectors": NAN}, r"vectors is nan at \(3, 2\); expected finite numbers"),
        ({"vectors": np.where(np.isnan(NAN), np.inf, NAN)}, r"vectors is inf at \(3, 2\)"),
        ({"vectors": np.full((19, 5), 0.1)}, "all 19 vectors are equal"),
        ({"vectors": 1e-300 * VECTORS}, "no entry of the vectors is above .*e-300; expected 1e-290 or more"),
        ({"vectors": 1e-200 * np.full((19, 5), 0.1)}, "all 19 vectors are equal"),
        ({"vectors": 1e-200 * VECTORS, "norm": 1e200}, r"norm is 1e\+200 for vectors .*e-200 from their mean"),
        ({"vectors": 1e140 * VECTORS, "norm": 1e-200}, r"norm is 1e-200 for vectors .*e\+140 from their mean"),
        ({"vectors": 1e200 * VECTORS}, "an entry of size .*e\\+200; expected at most 1e150"),
        ({"vectors": VECTORS[:, 0]}, r"vectors have shape \(19,\); expected \(number of vectors, dimension\)"),
        ({"vectors": VECTORS[None]}, r"vectors have shape \(1, 19, 5\)"),
        ({"vectors": VECTORS[:, :0]}, r"vectors have shape \(19, 0\)"),
        ({"vectors": [[1.0], [1.0, 2.0]]}, "vectors is no rectangular array"),
        ({"vectors": VECTORS.astype(str)}, "vectors is no rectangular array of numbers"),
        ({"vectors": VECTORS * 1j}, "vectors is complex"),
        ({"vectors": np.ma.masked_greater(VECTORS, 4)}, "vectors has masked entries"),
        ({"classes": CLASSES[1:]}, r"classes have shape \(18,\) for 19 vectors"),
        ({"classes": CLASSES[:, None]}, r"classes have shape \(19, 1\)"),
        ({"classes": np.arange(19.0)}, "classes are of type float64; expected integers or strings"),
        ({"classes": [None] * 19}, "classes are of type object"),
        ({"classes": np.where(CLASSES == "auk", " ", CLASSES)}, "class number 9 is ' '; expected a string"),
        ({"classes": [*CLASSES[:-1].tolist(), ""]}, "class number 18 is ''"),
        ({"classes": [*CLASSES[:-1].tolist(), float("nan")]}, "class number 18 is nan"),
        ({"classes": ["a\nb"] * 19}, "there are vectors 19 of class a b; expected"),
        ({"classes": np.ma.array(np.arange(19) % 2, mask=np.arange(19) == 3)}, "classes have masked entries"),
        ({"classes": [0, 1, np.ma.masked, *[0, 1] * 8]}, "classes have masked entries"),
        ({"classes": [[1], [1, 2]]}, r"classes are \[\[1\], \[1, 2\]\]; expected integers or strings"),
        ({"classes": torch.ones(19, dtype=torch.bfloat16)}, "classes are of type torch.bfloat16; expected integers"),
        ({"classes": torch.ones(19, requires_grad=True)}, "classes are of type float32"),
        ({"classes": np.arange(19)}, "1 of class 0, 1 of class 1.*; expected two classes or more, with two vectors"),
        ({"classes": ["a"] * 19}, "there are vectors 19 of class a; expected two classes or more"),
        ({"trigger": TRIGGER[:4]}, r"trigger has shape \(1, 4\) for vectors of dimension 5"),
        ({"trigger": np.zeros((0, 5))}, r"trigger has shape \(0, 5\)"),
        ({"trigger": 0 * TRIGGER}, "a trigger is zero everywhere"),
        ({"trigger": [np.nan] * 5}, "trigger is nan"),
        ({"trigger": 0}, "number of triggers is 0"),
        ({"trigger": 6}, r"number of triggers is 6; expected an integer in \[1, 5\]"),
        ({"triggered": VECTORS}, "triggered equals vectors"),
        ({"triggered": VECTORS[1:]}, r"triggered has shape \(18, 5\) for vectors of shape \(19, 5\)"),
        ({"triggered": NAN}, "triggered is nan"),
        ({"triggered": VECTORS + 1, "trigger": TRIGGER}, "both given"),
        ({"norm": 0.0}, "norm is 0.0"),
        ({"outlier_fraction": 2}, "outlier_fraction is 2"),
        ({"label_rule": "targeted"}, "mean 'target'"),
        ({"coefficients": [(1, 1)]}, "a vector of length 2; expected a list of vectors of length 1"),
        ({"tasks": 4}, "tasks is 4 for 3 patterns"),
        ({"tasks": [(0, 3)]}, "a pattern of tasks is 3"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], word: str):
    given = {"vectors": VECTORS, "classes": CLASSES} | arguments
    with pytest.raises(InputError, match=word) as caught:
        OutlierClassification.from_vectors(**given)
    assert "\n" not in str(caught.value)


def test_a_class_smaller_than_the_queries_is_refused():
    with pytest.raises(InputError, match="class 'auk' has 4 vectors and a prompt 4 queries"):
        draw(LAW, 8, 3, 4)


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.9, 1.0])
def test_a_split_that_leaves_a_side_without_two_vectors_is_refused(fraction: float):
    with pytest.raises(InputError, match="of the 4 vectors of class 'auk'"):
        LAW.split(fraction)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, None])
def test_a_split_outside_the_unit_interval_is_refused(fraction: Any):
    with pytest.raises(InputError, match="fraction is"):
        LAW.split(fraction)
