"""The local engine, and processes that are killed: results never depend on any of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from iclab.cli.main import main
from iclab.experiments.resolved import resolve
from iclab.runs.run import run_experiment

COIN = str(Path(__file__).parents[1] / "kinds" / "coin.yaml")
CELLS = 5


def values(folder: Path) -> dict[str, bytes]:
    return {p.parent.name: p.read_bytes() for p in sorted(folder.glob("cells/*/values.safetensors"))}


def is_running(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def wait_until(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_engines_and_workers_agree_bitwise(tmp_path):
    resolved = resolve(COIN, ["seed=0..2", "coin.bias=0.3", "num_throws=500", f"log={tmp_path / 'log'}"])
    run_experiment(resolved, tmp_path / "inline", engine="inline", quiet=True)
    for workers in (1, 2):
        folder = tmp_path / f"local {workers}"
        outcome = run_experiment(resolved, folder, engine="local", workers=workers, quiet=True)
        assert outcome.num_finished == 3
        assert values(folder) == values(tmp_path / "inline")
        for table in ("results.csv", "summary.csv"):
            assert (folder / table).read_bytes() == (tmp_path / "inline" / table).read_bytes()
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    inline, one, two = lines[:3], lines[3:6], lines[6:]
    assert {pid for _, _, pid, _ in inline} == {str(os.getpid())}
    assert len({pid for _, _, pid, _ in one}) == 1
    assert 1 <= len({pid for _, _, pid, _ in two}) <= 2
    assert {threads for *_, threads in lines} == {"1"}
    assert not any(is_running(int(pid)) for _, _, pid, _ in one + two)


def test_a_worker_that_dies_costs_one_cell(tmp_path, capfd):
    arguments = ["trouble.how=kill,none,exit,raise,print", "seed=0", "coin.bias=0.5"]
    resolved = resolve(COIN, arguments)
    outcome = run_experiment(resolved, tmp_path, engine="local", workers=1, quiet=True)
    how = {cell.id: cell.to_json()["trouble"]["how"] for cell in resolved.cells}
    assert {how[cell]: reason for cell, reason in outcome.failed.items()} == {
        "kill": "the worker process was killed by SIGKILL (out of memory?)",
        "exit": "the worker process ended with exit code 3 in the middle of the cell",
        "raise": "ArithmeticError: the coin rolled away",
    }
    assert outcome.num_finished == 2
    for cell in outcome.failed:
        assert (tmp_path / "cells" / cell / "error.txt").read_text().startswith(outcome.failed[cell])
    # A cell that prints does not disturb the worker's answers; what it printed is shown.
    assert set(pd.read_csv(tmp_path / "results.csv")["how"]) == {"none", "print"}
    assert "raw bytes" in capfd.readouterr().err


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> tuple[Path, list[str]]:
    """A run that nothing interrupts, and the arguments of all runs that are to end like it."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    arguments = [COIN, f"seed=0..{CELLS - 1}", "coin.bias=0.5", "seconds=0.4", f"log={folder / 'log'}"]
    run_experiment(resolve(COIN, arguments[1:]), folder / "run", engine="inline", quiet=True)
    return folder, arguments


def start(arguments: list[str], out: Path, engine: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "iclab", "run", *arguments, "--out", str(out), *engine]
    # A shell's background job ignores SIGINT and hands that down; these tests need a process that listens.
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def check_continues(out: Path, uninterrupted: Path, arguments: list[str], engine: list[str], capsys) -> None:
    done = len(list(out.glob("cells/*/cell.json")))
    assert 0 < done < CELLS
    before = {p: p.read_bytes() for p in out.glob("cells/*/cell.json")}
    assert main(["run", *arguments, "--out", str(out), *engine]) == 0
    assert f"continuing: {done} of {CELLS} cells are finished" in capsys.readouterr().err
    assert all(p.read_bytes() == content for p, content in before.items())
    assert values(out) == values(uninterrupted)
    assert not list(out.rglob("*.tmp"))
    for table in ("results.csv", "summary.csv"):
        assert (out / table).read_bytes() == (uninterrupted / table).read_bytes()


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """`iclab run` sets these for its process, which here is that of the tests."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        monkeypatch.setenv(name, "1")


def test_kill_and_continue(tmp_path, uninterrupted, capsys):
    folder, arguments = uninterrupted
    engine = ["--engine", "local", "--workers", "1"]
    (folder / "log").unlink()
    process = start(arguments, tmp_path / "run", engine)
    wait_until(lambda: len(list(tmp_path.glob("run/cells/*/cell.json"))) >= 2)
    # Another process is told to stay out.
    assert main(["run", *arguments, "--out", str(tmp_path / "run"), *engine]) == 2
    assert f"another process (pid {process.pid} on " in capsys.readouterr().err
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    workers = {int(line.split()[2]) for line in (folder / "log").read_text().splitlines()}
    assert process.pid not in workers
    wait_until(lambda: not any(is_running(pid) for pid in workers), 10)
    (tmp_path / "run" / ".0123456789abcdef.tmp").write_text("of the process that was killed")
    check_continues(tmp_path / "run", folder / "run", arguments, engine, capsys)


@pytest.mark.parametrize("engine", [["--engine", "inline"], ["--engine", "local", "--workers", "1"]])
def test_interrupt_and_continue(tmp_path, uninterrupted, capsys, engine):
    folder, arguments = uninterrupted
    (folder / "log").unlink(missing_ok=True)
    process = start(arguments, tmp_path / "run", engine)
    wait_until(lambda: len(list(tmp_path.glob("run/cells/*/cell.json"))) >= 1)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    done = len(list(tmp_path.glob("run/cells/*/cell.json")))
    assert process.returncode == 130
    assert out == ""
    assert err.lstrip() == f"interrupted: {done} of {CELLS} cells are finished; the same command continues\n"
    assert not any(is_running(int(line.split()[2])) for line in (folder / "log").read_text().splitlines())
    check_continues(tmp_path / "run", folder / "run", arguments, ["--engine", "inline"], capsys)


def test_full_disk(tmp_path, capsys):
    # A limit on the size of files stands in for a full disk: both end a write in the middle.
    arguments = [
        COIN,
        "num_throws=4000",
        "seed=0",
        "coin.bias=0.5",
        "--engine",
        "inline",
        "--out",
        str(tmp_path / "run"),
    ]
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000));"
        "from iclab.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.run([sys.executable, "-c", limited, "run", *arguments], capture_output=True, text=True)
    assert process.returncode == 2
    place = tmp_path / "run"
    told = re.escape(f"error: File too large: {place}{os.sep}cells") + r".+\.safetensors; what was finished before, "
    assert re.fullmatch(told + r"if anything, is kept\n", process.stderr)
    assert not list(tmp_path.rglob("*.tmp"))
    assert not list(tmp_path.rglob("cell.json"))
    assert main(["run", *arguments]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'run' / 'report.html'}\n"


def test_a_fault_in_dealing_with_an_answer_fails_the_cell_and_not_the_run(tmp_path, monkeypatch):
    def broken(process, request):
        raise KeyError("reason")

    monkeypatch.setattr("iclab.runs.executors.local._ask", broken)
    outcome = run_experiment(resolve(COIN), tmp_path / "run", engine="local", workers=2, quiet=True)
    assert outcome.num_finished == 0
    assert len(outcome.failed) == outcome.num_cells
    assert all("the answer of the worker process cannot be used: KeyError" in why for why in outcome.failed.values())
