"""Two processes under ``torchrun`` against one: the same curve to rounding, the same bits in both, one writer."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from iclab.errors import InputError
from iclab.pretraining.trainer.distributed import World, local_device
from iclab.prompts import Prompts
from train_support import EVERYTHING, Correlation, build, run, timeless, weights

WORKER = Path(__file__).parents[1] / "helpers" / "train_worker.py"


def torchrun(folder: Path, stop_at: int) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(WORKER)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(
        [*command, str(folder), str(stop_at)], env=environment, capture_output=True, text=True, timeout=120
    )


def results(folder: Path) -> list[dict]:
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_two_processes_train_as_one_and_resume(tmp_path):
    """Stopped in the middle, resumed, and compared with an undisturbed training in one process."""
    done = torchrun(tmp_path, stop_at=20)  # passes: 17 steps and 3 in evaluation
    assert done.returncode == 0, done.stderr
    first, second = results(tmp_path)
    assert (first.pop("checkpoint"), second.pop("checkpoint")) == (True, False)
    assert first == second
    assert (first["processes"], first["resumed_from"]) == (2, 15)
    model, record = run(folder=tmp_path / "alone", **EVERYTHING)
    assert first["losses"] == pytest.approx([line["loss"] for line in record.metrics], rel=1e-5)
    torch.testing.assert_close(torch.tensor(first["weights"]), weights(model), rtol=1e-4, atol=1e-5)
    evaluation = [line["evaluation"]["loss"] for line in record.metrics if "evaluation" in line]
    assert first["evaluation"] == pytest.approx(evaluation, rel=1e-5)
    steps = [line["step"] for line in timeless(tmp_path / "alone")]
    assert [line["step"] for line in timeless(tmp_path / "training")] == steps
    names = {path.name for path in (tmp_path / "alone").iterdir()}
    assert {path.name for path in (tmp_path / "training").iterdir()} == names
    # One process can finish what two began.
    alone, again = run(build(5), folder=tmp_path / "training", **EVERYTHING)
    assert again.resumed_from == 24
    assert weights(alone).tolist() == first["weights"]


def test_one_process_is_left_alone():
    world = World(0, 1, torch.device("cpu"))
    values = [torch.ones(3), torch.ones(2, dtype=torch.float64)]
    world.add(values)
    assert torch.equal(values[0], torch.ones(3))
    assert world.leads
    assert world.share(b"bytes") == b"bytes"
    assert world.share(None) is None
    assert local_device(torch.device("cpu")) == torch.device("cpu")


def _enter(rank: int, store: str) -> World:
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    return World(rank, 2, torch.device("cpu"))


def two_processes(target: Callable[..., None], store: Path, *arguments: object) -> list[tuple]:
    """What ``target(rank, store, answers, *arguments)`` puts into ``answers`` in two processes, by rank."""
    context = torch.multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [context.Process(target=target, args=(rank, str(store), answers, *arguments)) for rank in range(2)]
    for worker in workers:
        worker.start()
    found = sorted(answers.get(timeout=90) for _ in workers)
    for worker in workers:
        worker.join(60)
    return found


def _group(rank: int, store: str, answers) -> None:
    world = _enter(rank, store)
    values = [torch.full((2, 3), rank + 1.0), torch.full((), 10.0 * (rank + 1), dtype=torch.float64)]
    world.add(values)
    shared = [world.share(data if rank == 0 else None) for data in (b"\x00\xff" * 5, b"", None)]
    answers.put((rank, [value.tolist() for value in values], shared))
    torch.distributed.destroy_process_group()


def test_sums_and_bytes_arrive_everywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    expected = ([[[3.0] * 3] * 2, 30.0], [b"\x00\xff" * 5, b"", None])
    assert two_processes(_group, tmp_path / "store") == [(0, *expected), (1, *expected)]


class LayerDrop(Correlation):
    """Two more matrices that a micro-batch uses or not, by its first label; a third that nothing uses.

    With ``total``, a micro-batch with a first label below -1.5 uses no parameter at all.
    """

    total = False

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far, self.unused = (torch.nn.Linear(4, 1, bias=False) for _ in range(3))
        for layer in (self.near, self.far, self.unused):
            torch.nn.init.constant_(layer.weight, 0.1)
        self.register_buffer("seen", torch.zeros(()))

    def prefixes(self, prompts: Prompts) -> torch.Tensor:
        first = float(prompts.example_labels[0, 0])
        self.seen += first
        if self.total and first < -1.5:
            return torch.zeros_like(prompts.example_labels)
        predictions = super().prefixes(prompts)
        if first > 0:
            predictions = predictions + self.near(prompts.examples)[..., 0]
        if first > 1:
            predictions = predictions + self.far(prompts.examples)[..., 0]
        return predictions


def dropping(rank: int, total: bool) -> LayerDrop:
    model = LayerDrop()
    model.total = total
    model.load_state_dict(build(rank).state_dict(), strict=False)
    return model


def _drop_layers(rank: int, store: str, answers, total: bool) -> None:
    _enter(rank, store)
    model, record = run(dropping(rank, total), evaluate_every=12, evaluation_prompts=8)
    losses = [line["loss"] for line in record.metrics]
    answers.put((rank, weights(model).tolist(), losses, float(model.seen)))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("total", [False, True])
def test_parameters_that_one_process_does_not_use(total, tmp_path, monkeypatch):
    """Two processes against two micro-batches in one: the same parts, used by the same parameters."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    found = two_processes(_drop_layers, tmp_path / "store", total)
    assert found[0][1:] == found[1][1:]
    model, record = run(dropping(0, total), evaluate_every=12, evaluation_prompts=8, accumulate=2)
    torch.testing.assert_close(torch.tensor(found[0][1]), weights(model), rtol=1e-4, atol=1e-6)
    assert found[0][2] == pytest.approx([line["loss"] for line in record.metrics], rel=1e-5)
    assert float(model.unused.weight.detach().sub(0.1).abs().max()) == 0
    assert float(model.far.weight.detach().sub(0.1).abs().max()) > 0.001


class Tampered(Correlation):
    """Changes a weight a little in process 1, in its ninth pass."""

    rank, passes = 0, 0

    def prefixes(self, prompts: Prompts) -> torch.Tensor:
        self.passes += 1
        if self.rank and self.passes == 9:
            with torch.no_grad():
                self.read.bias[2] += 1e-5
        return super().prefixes(prompts)


def _disagree(rank: int, store: str, answers, case: str) -> None:
    _enter(rank, store)
    model, options = Tampered(), {"evaluate_every": 8, "evaluation_prompts": 8}
    model.rank = rank if case == "weights" else 0
    if case == "tensors" and rank:
        model.more = torch.nn.Linear(3, 3)
    if case == "frozen" and rank:
        model.read.bias.requires_grad_(False)
    if case == "settings":
        options["log_every"] = 4 + rank
    try:
        run(model, **options)
        answers.put((rank, "no error"))
    except InputError as error:
        answers.put((rank, str(error)))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            "weights",
            "after step 16 the parameter read.bias of process 1 is no longer that of process 0; expected equal",
        ),
        ("tensors", "processes 0 and 1 were given models of different tensors; expected the same call of train"),
        ("frozen", "processes 0 and 1 were given models of different tensors; expected the same call of train"),
        ("settings", "processes 0 and 1 were given different settings; expected the same call of train"),
    ],
)
def test_processes_that_disagree_stop_with_one_line(case, message, tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    found = two_processes(_disagree, tmp_path / "store", case)
    assert [rank for rank, _ in found] == [0, 1]
    for _, text in found:
        assert text.startswith(message)
        assert "\n" not in text


def test_a_loss_without_parameters_is_refused():
    class Detached(Correlation):
        def prefixes(self, prompts: Prompts) -> torch.Tensor:
            return super().prefixes(prompts).detach()

    with pytest.raises(InputError, match="the loss of Detached depends on none of its trained parameters; expected"):
        run(Detached())
