"""Trainings that end early or are called oddly: full disks, dropout split anew, tied weights, no gradients."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from iclab.errors import InputError
from iclab.models import InContextModel, Mamba
from iclab.pretraining import NonFiniteLossError, load_checkpoint
from iclab.pretraining.trainer.checkpoint import Checkpoint
from iclab.prompts import Prompts
from train_support import EVERYTHING, SHORT, Correlation, build, run, timeless, weights


class Tied(nn.Module):
    """One matrix under two names."""

    input_dim = 4

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            self.first, self.second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight

    def prefixes(self, prompts: Prompts) -> torch.Tensor:
        return self.second(torch.tanh(self.first(prompts.examples)))[..., 0]


@pytest.mark.parametrize("which", ["last", "best"])
def test_averages_of_tied_weights_are_loaded(tmp_path: Path, which: str):
    trained, _ = run(Tied(), average=0.9, folder=tmp_path, evaluate_every=24, evaluation_prompts=16)
    file = tmp_path / ("best.safetensors" if which == "best" else "step-000000024.safetensors")
    raw = Checkpoint.from_bytes(file.read_bytes(), "it").part("model")["first.weight"]
    loaded = Tied()
    load_checkpoint(loaded, tmp_path, which=which)
    assert torch.equal(loaded.first.weight, trained.first.weight)
    assert loaded.second.weight is loaded.first.weight
    load_checkpoint(loaded, tmp_path, which=which, averaged=False)
    assert torch.equal(loaded.second.weight, raw)
    assert not torch.equal(raw, trained.first.weight)


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, after: int) -> Iterator[None]:
    """Nothing can be synced any more from the call number ``after`` on."""
    calls, fsync = iter(range(10**6)), os.fsync

    def refuse(descriptor: int) -> None:
        if next(calls) >= after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        yield


def test_a_full_disk_names_folder_and_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plain, _ = run(folder=tmp_path / "plain", **EVERYTHING)
    seen = set()
    for after in (0, 4, 9, 17):
        folder = tmp_path / str(after)
        with full_disk(monkeypatch, after), pytest.raises(OSError, match="No space left") as caught:
            run(folder=folder, **EVERYTHING)
        message = str(caught.value)
        newest = max(folder.glob("step-*"), default=None)
        left = "no checkpoint was written" if newest is None else f"its last good checkpoint is {newest.name}"
        assert f"the training in {folder} has stopped and {left}" in message
        assert caught.value.errno == errno.ENOSPC
        assert Path(caught.value.filename).parent == folder
        assert "\n" not in message
        seen.add(left)
        # With room again, the same call ends with the same bits.
        model, _ = run(folder=folder, **EVERYTHING)
        assert torch.equal(weights(model), weights(plain))
        assert timeless(folder) == timeless(tmp_path / "plain")
    assert len(seen) > 2


def test_an_error_about_another_file_is_left_as_it_is(tmp_path: Path):
    def lost(_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file", "/elsewhere/notes")

    with pytest.raises(FileNotFoundError) as caught:
        run(folder=tmp_path, progress=lost)
    assert str(caught.value) == "[Errno 2] No such file: '/elsewhere/notes'"


def test_dropout_is_not_split_anew_on_resuming(tmp_path: Path):
    run(build(dropout=0.5), folder=tmp_path, steps=4)
    with pytest.raises(InputError, match=r"dropout, trained with accumulate times processes = 1, and here that is 2"):
        run(build(dropout=0.5), folder=tmp_path, accumulate=2)
    model, record = run(build(dropout=0.5), folder=tmp_path)
    assert record.resumed_from == 4
    assert torch.equal(weights(model), weights(run(build(dropout=0.5))[0]))


def test_without_dropout_a_batch_may_be_split_anew(tmp_path: Path):
    run(folder=tmp_path, steps=4)
    model, record = run(folder=tmp_path, accumulate=2)
    assert record.resumed_from == 4
    assert torch.allclose(weights(model), weights(run()[0]), atol=1e-5)


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_gradients_are_taken_where_the_caller_has_switched_them_off(off: Callable[[], Any]):
    model = build()
    with off():
        trained, _ = run(model, evaluate_every=12, evaluation_prompts=16)
        assert not torch.is_grad_enabled()
    assert torch.equal(weights(trained), weights(run()[0]))


def test_a_model_built_in_inference_mode_is_refused():
    with torch.inference_mode():
        model = build()
    with pytest.raises(InputError, match=r"built inside torch\.inference_mode\(\)"):
        run(model)


@pytest.mark.parametrize("betas", [5, None, "ab", (0.9,), (0.9, 1.0), (0.9, "x"), (0.9, True)])
def test_betas_that_are_no_two_numbers(betas: Any):
    with pytest.raises(InputError, match="expected 2 values, each a finite number >= 0 and < 1"):
        run(betas=betas)


def test_betas_may_be_a_list():
    assert torch.equal(weights(run(betas=[0.9, 0.999])[0]), weights(run()[0]))


@pytest.mark.parametrize("device", ["cpu:3", "cpu:0"])
def test_a_cpu_has_no_number(device: str):
    with pytest.raises(InputError, match=f"device is '{device}'; expected cpu"):
        run(device=device)


@pytest.mark.parametrize("rate", [100.0, 1e30])
def test_a_diverged_mamba_says_so(rate: float):
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = InContextModel(4, Mamba(8, 1, state_size=4))
    with pytest.raises(NonFiniteLossError, match="lower the learning rate"):
        run(model, **{**SHORT, "learning_rate": rate, "clip_norm": None})


def test_out_of_memory_in_a_model_is_told_by_the_training():
    class Hungry(Correlation):
        def prefixes(self, prompts: Prompts) -> torch.Tensor:
            return super().prefixes(prompts) + Mamba(8, 1)(torch.zeros(1, 1, 1).expand(1, 2**40, 8))[0, 0, 0]

    with pytest.raises(InputError, match=r"training Hungry asked for \d+ bytes of memory that cpu .* lower batch_size"):
        run(Hungry())
