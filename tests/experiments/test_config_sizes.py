"""Sizes that no machine holds are refused by `check`, before anything is drawn or trained."""

from __future__ import annotations

import pytest
import torch

from iclab.errors import InputError
from iclab.experiments.resolve import resolve
from iclab.experiments.sections.base import Setting
from iclab.experiments.sections.deep import DeepLearner
from iclab.experiments.sections.single_index import SingleIndexPrompts
from iclab.prompts import Stream

GIB = 2**30


@pytest.fixture(autouse=True)
def _sixteen_gib(monkeypatch):
    monkeypatch.setattr("iclab.memory.total_memory", lambda: 16 * GIB)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("li2025/outlier-fraction", ["prompts.ambient_dim=10000", "prompts.relevant=5000"], "prompts_per_task"),
        ("li2025/attack", ["prompts.ambient_dim=10000", "prompts.relevant=5000"], "prompts_per_task"),
        ("li2025/gates", ["prompts.ambient_dim=10000", "num_prompts=1000000"], "num_prompts"),
        ("li2025/attention", ["prompts.ambient_dim=10000", "probe_prompts=10000000"], "probe_prompts"),
        ("oh2025/alignment", ["prompts.ambient_dim=90000", "prompts.rotation=random"], "prompts.ambient_dim = 90,000"),
        ("oh2025/ambient-dim", ["learners.mamba.backbone.state_size=1000000"], "state_size is 1000000"),
        ("oh2025/ambient-dim", ["learners.mamba.backbone.state_size=60000"], "learners.mamba (4096 tokens a step)"),
        ("oh2025/ambient-dim", ["learners.mamba.backbone.width=100000"], "learners.mamba.backbone"),
        ("oh2025/ambient-dim", ["learners.mamba.backbone.depth=100000"], "learners.mamba.backbone.depth is 100000"),
        ("oh2025/ambient-dim", ["learners.gpt2.backbone.width=8192"], "learners.gpt2.backbone (1,61"),
        ("oh2025/ambient-dim", ["learners.gpt2.training.evaluation_prompts=10000000"], "tokens to predict at once"),
    ],
)
def test_what_does_not_fit_is_refused(monkeypatch, name, arguments, message):
    def drawn(*_):
        raise AssertionError("patterns were drawn before their size was looked at")

    monkeypatch.setattr("iclab.prompts.outlier_classification.random_orthogonal", drawn)
    monkeypatch.setattr("iclab.prompts.single_index.random_orthogonal", drawn, raising=False)
    with pytest.raises(InputError) as caught:
        resolve(name, arguments)
    assert message in str(caught.value)


def test_parameters_are_counted_without_memory():
    """A check leaves the generator alone, and counts what the model has that is trained."""
    section = DeepLearner()
    trained = section.build(8, [32], Stream(0)).num_parameters()
    before = torch.random.get_rng_state()
    section.check("learners.mamba", Setting(SingleIndexPrompts(ambient_dim=8), 0, [32]))
    assert torch.equal(torch.random.get_rng_state(), before)
    with torch.device("meta"):
        assert section._assemble(8, [32]).num_parameters() == trained


def test_a_clip_that_single_precision_lacks_is_refused():
    with pytest.raises(InputError, match=r"learners\.identity\.clip is 1e\+308; expected a value <= 1e\+30"):
        resolve("oh2025/error", ["learners.identity.clip=1e308"])
