"""Killed at any moment and started again, a training gives the bits of one that nobody disturbed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
import torch

from iclab.errors import InputError
from iclab.pretraining import load_checkpoint, train
from iclab.prompts import Prompts
from train_support import EVERYTHING, Correlation, build, distribution, run, timeless, weights

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["torch._dynamo", "iclab.pretraining", "pytest"]
)  # what takes a process seconds to import


class Slow(Correlation):
    """Waits in each step, so that a kill meets it at work; dies by itself at the given pass through the model."""

    pause, deadly = 0.0, -1

    def prefixes(self, prompts: Prompts) -> torch.Tensor:
        time.sleep(self.pause)
        self.deadly -= 1
        if self.deadly == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().prefixes(prompts)


def make(seed: int = 0, pause: float = 0.0, deadly: int = -1) -> Slow:
    model = Slow(dropout=0.2)
    model.load_state_dict(build(seed, dropout=0.2).state_dict())
    model.pause, model.deadly = pause, deadly
    return model


def work(folder: str, seed: int, pause: float, deadly: int, deadly_call: int) -> None:
    """A training in a process of its own; ``deadly_call`` counts calls to the file system and dies before that one."""
    torch.set_num_threads(1)
    if deadly_call > 0:
        left = [deadly_call]

        def deadly_form(function):
            def call(*arguments, **options):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments, **options)

            return call

        for name in ("fsync", "replace", "unlink"):
            setattr(os, name, deadly_form(getattr(os, name)))
        Path.unlink = deadly_form(Path.unlink)  # type: ignore[method-assign]
    train(make(seed, pause, deadly), distribution(), folder=folder, **EVERYTHING)


def start(folder: Path, *, seed: int = 0, pause: float = 0.0, deadly: int = -1, deadly_call: int = 0):
    process = CONTEXT.Process(target=work, args=(str(folder), seed, pause, deadly, deadly_call))
    process.start()
    return process


def join(process) -> int:
    process.join(60)
    return process.exitcode


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> tuple[torch.Tensor, list, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    model, record = run(make(), folder=folder, **EVERYTHING)
    assert record.resumed_from == 0
    assert record.steps == 24
    return weights(model), timeless(folder), (folder / "step-000000024.safetensors").read_bytes()


def check(folder: Path, undisturbed: tuple[torch.Tensor, list, bytes], seed: int = 1) -> int:
    """Finish the training in ``folder`` here, from a model with other initial weights, and compare everything."""
    model, record = run(make(seed), folder=folder, **EVERYTHING)
    assert torch.equal(weights(model), undisturbed[0])
    assert timeless(folder) == undisturbed[1]
    assert [line["step"] for line in record.metrics] == [line["step"] for line in undisturbed[1]]
    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        "best.safetensors",
        "lock",
        "metrics.jsonl",
        "step-000000021.safetensors",
        "step-000000024.safetensors",
    ]
    best = min((line["evaluation"]["loss"], line["step"]) for line in record.metrics if "evaluation" in line)
    assert (record.best_loss, record.best_step) == best
    assert load_checkpoint(make(), folder, which="best") == best[1]
    return record.resumed_from


@pytest.mark.parametrize("deadly", [1, 4, 6, 7, 9, 10, 11, 15, 17, 19, 25])
def test_killed_within_a_step(deadly: int, undisturbed, tmp_path):
    """Around each change of the curriculum (steps 5, 7, 8, 9, 10, 14, 16, 18), in evaluation, and at the start."""
    assert join(start(tmp_path, deadly=deadly)) == -signal.SIGKILL
    assert check(tmp_path, undisturbed) < 24


def test_killed_at_each_call_to_the_file_system(undisturbed, tmp_path):
    """While checkpoints and metrics are written, synced, renamed and removed (every second call of an odd pattern)."""
    killed = finished = 0
    for call in range(1, 200, 2):
        folder = tmp_path / str(call)
        code = join(start(folder, deadly_call=call))
        if code == 0:
            finished += 1
            break
        assert code == -signal.SIGKILL
        killed += 1
        # Without a checkpoint there is nothing to go on from but the same initial weights.
        check(folder, undisturbed, seed=1 if list(folder.glob("step-*.safetensors")) else 0)
    assert killed > 30
    assert finished == 1


@pytest.mark.parametrize("number", range(4))
def test_killed_at_random_moments_again_and_again(number: int, undisturbed, tmp_path):
    chance = random.Random(number)
    kills = 0
    for _ in range(20):
        process = start(tmp_path, pause=0.008)
        timer = threading.Timer(chance.uniform(0.03, 0.25), process.kill)
        timer.start()
        code = join(process)
        timer.cancel()
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
    assert kills > 0
    check(tmp_path, undisturbed, seed=1 if list(tmp_path.glob("step-*.safetensors")) else 0)


def test_half_a_line_and_lines_of_the_future_are_dropped(undisturbed, tmp_path):
    assert join(start(tmp_path, deadly=14)) == -signal.SIGKILL
    before = len(timeless(tmp_path))
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 99, "loss": 1.0}\n{"step": 100, "lo')
    assert check(tmp_path, undisturbed) == 9
    assert before < len(timeless(tmp_path))


def test_a_finished_training_is_read_back(undisturbed, tmp_path):
    run(make(), folder=tmp_path, **EVERYTHING)
    stored = (tmp_path / "step-000000024.safetensors").read_bytes()
    assert check(tmp_path, undisturbed) == 24
    assert (tmp_path / "step-000000024.safetensors").read_bytes() == stored


def test_the_place_may_change(undisturbed, tmp_path):
    """Drawing ahead and checkpoints belong to the execution, not to the training; micro-batches too without dropout."""
    assert join(start(tmp_path, deadly=14)) == -signal.SIGKILL
    options = {**EVERYTHING, "checkpoint_every": 5, "keep": 1}
    model, record = run(make(1), folder=tmp_path, prefetch=True, **options)
    assert record.resumed_from == 9
    assert [path.name for path in tmp_path.glob("step-*")] == ["step-000000024.safetensors"]
    assert torch.equal(weights(model), undisturbed[0])


def test_more_steps_of_a_constant_schedule(tmp_path):
    options = {"average": 0.9, "log_every": 4, "checkpoint_every": 8}
    model, record = run(folder=tmp_path, **options, steps=16)
    longer, more = run(build(1), folder=tmp_path, **options, steps=24)
    whole, plain = run(**options, steps=24)
    assert (record.steps, more.resumed_from, more.steps) == (16, 16, 24)
    assert torch.equal(weights(longer), weights(whole))
    assert not torch.equal(weights(longer), weights(model))
    assert [line["loss"] for line in more.metrics] == [line["loss"] for line in plain.metrics]
    with pytest.raises(InputError, match="steps is 24 there and 16 here"):
        run(folder=tmp_path, **options, steps=16)


def test_not_resumed_unless_wanted(tmp_path):
    run(folder=tmp_path)
    with pytest.raises(InputError, match=r"holds a training already \(step-000000024.safetensors\)"):
        run(folder=tmp_path, resume=False)


def test_loading_weights(tmp_path):
    model, _ = run(folder=tmp_path, average=0.9, evaluate_every=8)
    last, raw = build(1), build(1)
    assert load_checkpoint(last, tmp_path) == 24
    assert torch.equal(weights(last), weights(model))
    assert load_checkpoint(raw, tmp_path / "step-000000024.safetensors", averaged=False) == 24
    assert torch.equal(weights(raw), weights(run()[0]))
    assert load_checkpoint(build(), tmp_path, which="best") in (8, 16, 24)
