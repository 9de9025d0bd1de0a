"""Two processes under ``torchrun`` against one: the same curve to rounding, the same bits in both, one writer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from iclab.pretraining.distributed import World, local_device
from train_support import EVERYTHING, build, run, timeless, weights

WORKER = Path(__file__).with_name("train_worker.py")


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


def _group(rank: int, store: str, answers) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    world = World(rank, 2, torch.device("cpu"))
    values = [torch.full((2, 3), rank + 1.0), torch.full((), 10.0 * (rank + 1), dtype=torch.float64)]
    world.add(values)
    shared = [world.share(data if rank == 0 else None) for data in (b"\x00\xff" * 5, b"", None)]
    answers.put((rank, [value.tolist() for value in values], shared))
    torch.distributed.destroy_process_group()


def test_sums_and_bytes_arrive_everywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    context = torch.multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [context.Process(target=_group, args=(rank, str(tmp_path / "store"), answers)) for rank in range(2)]
    for worker in workers:
        worker.start()
    found = sorted(answers.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join(60)
    expected = ([[[3.0] * 3] * 2, 30.0], [b"\x00\xff" * 5, b"", None])
    assert found == [(0, *expected), (1, *expected)]
