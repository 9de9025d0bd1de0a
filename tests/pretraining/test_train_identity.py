"""What a stored training is compared with: a resumed one shares everything that decides its numbers."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from iclab.errors import InputError
from iclab.links import make_link
from iclab.pretraining import load_checkpoint
from iclab.pretraining.trainer.checkpoint import Checkpoint
from iclab.pretraining.trainer.described import described
from iclab.pretraining.trainer.identity import distribution_digest
from iclab.prompts import (
    CHUNK,
    InputDistribution,
    OutlierClassification,
    PromptDistribution,
    Prompts,
    SingleIndex,
    Stream,
    VectorClassification,
)
from train_support import EVERYTHING, build, distribution, run, weights


class Own(PromptDistribution):
    """A user's law with one scalar of public and one of private name, and one that counts draws."""

    ambient_dim = 4

    def __init__(self, scale: float = 1.0, shift: float = 0.0) -> None:
        self.scale, self._shift, self._draws = scale, shift, 0

    def draw_chunks(self, generators, num_examples, num_queries, dtype, buffer=None):
        (generator,) = generators
        self._draws += 1
        inputs = torch.randn(CHUNK, num_examples + num_queries, 4, generator=generator, dtype=dtype)
        return Prompts(inputs, self.scale * inputs[..., 0] + self._shift, num_examples)


class Exact(Own):
    """The same, with its private scalar said."""

    def identity(self):
        return {"scale": self.scale, "shift": self._shift}


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (Own(), Own(1 + 1e-9), "prompts.scale is 1.0 there and 1.000000001 here"),
        (Own(), Exact(), "prompts.class is Own there and Exact here"),
        (Own(), Own(shift=1e-3), "its distribution of prompts draws other prompts"),
        (Exact(), Exact(shift=1e-9), "prompts.shift is 0.0 there and 1e-09 here"),
        (distribution(noise=0.1), distribution(noise=0.101), "prompts.noise is 0.1 there and 0.101 here"),
        (
            distribution(noise=0.1),
            distribution(noise=0.1 + 2**-56),
            "prompts.noise is 0.1 there and 0.10000000000000002 here",
        ),
        (distribution(), distribution(rotation="random"), "prompts.rotation is None there and random, of seed 0 here"),
        (distribution(link=np.tanh), distribution(link=np.sin), "prompts.link.name is tanh there and sin here"),
        (
            distribution(link=lambda z: z),
            distribution(link=lambda z: 1.001 * z),
            "its distribution of prompts draws other prompts",
        ),
        (
            distribution(link=[0, 1]),
            distribution(link=[0, 1, 1e-9]),
            "prompts.link.coefficients is [0.0, 1.0] there and [0.0, 1.0, 1e-09] here",
        ),
    ],
)
def test_another_law_is_refused(first, second, message: str, tmp_path: Path):
    run(prompts=first, folder=tmp_path, steps=2)
    with pytest.raises(InputError) as caught:
        run(prompts=second, folder=tmp_path)
    assert f"is of another training: {message}" in str(caught.value)
    # The law itself, used meanwhile, is still the same.
    assert run(prompts=first, folder=tmp_path)[1].resumed_from == 2


@pytest.mark.parametrize("steps", [2, 24])
def test_another_dtype_is_refused(steps: int, tmp_path: Path):
    run(folder=tmp_path, steps=steps)
    with pytest.raises(InputError) as caught:
        run(build(dtype=torch.float64), folder=tmp_path)
    message = "read.bias is of shape (4,) and float32 there and of shape (4,) and float64 here; build the model"
    assert message in str(caught.value)
    # Weights alone may be read into another dtype.
    assert load_checkpoint(build(dtype=torch.float64), tmp_path) == steps


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (False, True, "frozen is [] there and ['read.bias'] here"),
        (True, False, "frozen is ['read.bias'] there and [] here"),
    ],
)
def test_other_frozen_weights_are_refused(before: bool, after: bool, message: str, tmp_path: Path):
    first, second = build(), build()
    first.read.bias.requires_grad_(not before)
    second.read.bias.requires_grad_(not after)
    run(first, folder=tmp_path, steps=2)
    with pytest.raises(InputError) as caught:
        run(second, folder=tmp_path)
    assert message in str(caught.value)


class Bare(nn.Module):
    """A model without `settings`."""

    input_dim = 4

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.read, self.drop = nn.Linear(4, 1), nn.Dropout(rate)

    def prefixes(self, prompts: Prompts) -> torch.Tensor:
        return self.drop(self.read(prompts.examples))[..., 0]


def test_a_model_without_settings_is_known_by_its_modules(tmp_path: Path):
    run(Bare(0.1), folder=tmp_path, steps=2)
    with pytest.raises(InputError) as caught:
        run(Bare(0.2), folder=tmp_path)
    found = "modules.drop is Dropout(p=0.1, inplace=False) there and Dropout(p=0.2, inplace=False) here"
    assert found in str(caught.value)
    assert run(Bare(0.1), folder=tmp_path)[1].resumed_from == 2


def as_before(folder: Path, model: nn.Module) -> None:
    """Rewrite the newest checkpoint as versions wrote it that knew laws by a sample alone."""
    file = max(folder.glob("step-*"))
    checkpoint = Checkpoint.from_bytes(file.read_bytes(), "it")
    description = {key: value for key, value in checkpoint.description.items() if key not in ("prompts", "frozen")}
    description["model"] = {key: value for key, value in description["model"].items() if key != "modules"}
    file.write_bytes(Checkpoint(checkpoint.tensors, description).to_bytes())


def test_checkpoints_of_earlier_versions_are_resumed(tmp_path: Path):
    run(folder=tmp_path, steps=8)
    as_before(tmp_path, build())
    for other in (distribution(noise=0.101), distribution(link="he2"), distribution(support=(0, 1, 2))):
        with pytest.raises(InputError, match="its distribution of prompts draws other prompts"):
            run(prompts=other, folder=tmp_path)
    frozen = build()
    frozen.read.bias.requires_grad_(False)
    with pytest.raises(InputError, match=r"read\.bias was trained there and is not here"):
        run(frozen, folder=tmp_path)
    with pytest.raises(InputError, match=r"read\.bias is of shape \(4,\) and float32 there"):
        run(build(dtype=torch.float64), folder=tmp_path)
    model, record = run(build(1), folder=tmp_path)
    assert record.resumed_from == 8
    assert torch.equal(weights(model), weights(run()[0]))
    run(Bare(0.1), folder=tmp_path / "bare", steps=2)
    as_before(tmp_path / "bare", Bare(0.1))
    assert run(Bare(0.1), folder=tmp_path / "bare")[1].resumed_from == 2


VECTORS = np.random.default_rng(0).normal(size=(12, 3))
CLASSES = np.arange(12) % 2


def vectors(change: float = 0.0, **options) -> VectorClassification:
    given = VECTORS.copy()
    given[11, 2] += change
    return VectorClassification(given, CLASSES, **options)


@pytest.mark.parametrize(
    "distributions",
    [
        [
            distribution(),
            distribution(noise=0.1 + 1e-12),
            distribution(inputs="uniform"),
            distribution(seed=1),
            distribution(inputs=InputDistribution(covariance=np.eye(4))),
        ],
        [distribution(rotation=np.eye(4)), distribution(rotation=-np.eye(4)), distribution(rotation="random")],
        [
            distribution(link="relu(z)"),
            distribution(link=make_link(lambda z: z)),
            distribution(link=make_link(lambda z: z, breakpoints=[0.5])),
        ],
        [OutlierClassification(8, 2, 2, 1), OutlierClassification(8, 2, 2, 1, outlier_fraction=0.1)],
        [OutlierClassification(8, 2, 2, 1), OutlierClassification(8, 2, 2, 1, norm=3 + 1e-9)],
        [OutlierClassification(8, 2, 2, 1, label_rule=r) for r in ("flipped", "random", lambda t, k, u: -t)],
        [vectors(), vectors(1e-9), vectors(seed=1), vectors(trigger=[1, 2, 3]), vectors(trigger=[1, 2, 3 + 1e-9])],
        [vectors(), vectors(triggered=VECTORS + 1), vectors(triggered=VECTORS + 1 + 1e-9), *vectors().split()],
        [Exact(), Exact(shift=1e-9)],
    ],
)
def test_laws_that_differ_are_described_differently(distributions: list[PromptDistribution]):
    texts = [json.dumps(described(each), allow_nan=False) for each in distributions]
    assert len(set(texts)) == len(texts)
    assert len({distribution_digest(each, Stream(0)) for each in distributions}) == len(distributions)
    assert all(len(text) < 2000 for text in texts)


def test_equal_laws_are_described_equally():
    for make in (
        functools.partial(
            SingleIndex, 5, 2, rotation="random", inputs=InputDistribution("student_t", 4, np.eye(5) + 0.1)
        ),
        functools.partial(OutlierClassification, tasks=[(0, 1), (2, 3)], coefficients=[(1, 0, 2)]),
        functools.partial(vectors, triggered=VECTORS + 1),
    ):
        first, second = make(), make()
        first.sample(Stream(0), 8, 3)
        assert described(first) == described(second)


def test_values_of_every_kind_are_described():
    value = {
        "numbers": [np.float32(0.5), np.int8(3), True, float("inf"), 2**70],
        "arrays": [np.arange(3.0)[::-1], torch.arange(3.0, dtype=torch.float64).flip(0), np.array([None, "a"])],
        "sets": {3, 1},
        "functions": [functools.partial(max, 1), np.tanh, len, Own],
        "others": [object(), torch.float32, torch.device("cpu"), None],
    }
    found = described(value)
    assert found["numbers"] == [0.5, 3, True, "inf", 2**70]
    assert found["arrays"][0] == found["arrays"][1]
    assert found["arrays"][0].startswith("float64 of shape (3,) and hash ")
    assert found["arrays"][2] == [None, "a"]
    assert found["sets"] == [1, 3]
    assert found["functions"] == [{"function": "max", "args": [1], "keywords": {}}, "tanh", "len", "Own"]
    assert found["others"] == ["object", "torch.float32", "cpu", None]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert described(list(range(1000))) == described(list(range(1000)))
    assert described(list(range(1000))) != described(list(range(1001)))


def test_the_description_is_written_down(tmp_path: Path):
    run(folder=tmp_path, **EVERYTHING)
    stored = Checkpoint.from_bytes((tmp_path / "step-000000024.safetensors").read_bytes(), "it").description
    assert stored["frozen"] == []
    assert stored["prompts"]["class"] == "SingleIndex"
    assert (stored["prompts"]["noise"], stored["prompts"]["ambient_dim"]) == (0.1, 4)
