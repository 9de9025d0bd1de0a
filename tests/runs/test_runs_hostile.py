"""Cells whose code does what it should not: each costs itself, and the other cells stay as they are."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from safetensors.numpy import load_file

from iclab.cli.main import main
from iclab.experiments.resolved import resolve
from iclab.runs.run import Outcome, run_experiment

KIND = """
import os, subprocess, sys, time
from iclab.experiments.kind import Config, ExperimentKind
from iclab.results.page import Report

class HostileConfig(Config):
    seed: int = 0
    act: str = "nothing"
    place: str = ""

class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no words")

def run_cell(config):
    import numpy as np
    from iclab.evaluation.measurement import Measurement

    def measured(learner="learner", metric="error", samples=None, **more):
        samples = np.full((1, 4), float(config.seed)) if samples is None else samples
        return [Measurement(learner, metric, samples, **more)]

    match config.act:
        case "fork": os.fork()
        case "fork and exit":
            if os.fork() == 0: sys.exit(0)
        case "fork and raise":
            if os.fork() == 0: raise RuntimeError("in the child")
        case "fork and stay":
            child = os.fork()
            if child == 0:
                time.sleep(20)
                os._exit(0)
            with open(config.place, "a") as file: file.write(f"{child}\\n")
        case "fork, stay and die":
            child = os.fork()
            if child == 0:
                time.sleep(20)
                os._exit(0)
            with open(config.place, "a") as file: file.write(f"{child}\\n")
            os.kill(os.getpid(), 9)
        case "start a program":
            child = subprocess.Popen(["sleep", "1000"])
            with open(config.place, "a") as file: file.write(f"{child.pid}\\n")
        case "sys.exit": sys.exit(0)
        case "SystemExit": raise SystemExit("enough")
        case "KeyboardInterrupt": raise KeyboardInterrupt
        case "GeneratorExit": raise GeneratorExit
        case "BaseException": raise BaseException("base")
        case "unprintable": raise Unprintable
        case "long message": raise ValueError("x" * 1_000_000)
        case "odd message": raise ValueError("a\\ud800b\\x1b[31mred")
        case "stdin": return measured(keys={"read": sys.stdin.read() if config.place else "not read"})
        case "chdir": os.chdir("/")
        case "surrogate learner": return measured(learner="a\\ud800")
        case "surrogate key": return measured(keys={"k": "a\\ud800"})
        case "list key": return measured(keys={"k": [1, 2]})
        case "nan key": return measured(keys={"k": float("nan")})
        case "huge key": return measured(keys={"k": 10**30})
        case "huge samples": return measured(samples=np.full((1, 4), 1e308))
        case "huge examples": return measured(num_examples=10**30)
        case "half an example": return measured(num_examples=1.5)
        case "negative examples": return measured(num_examples=-1)
        case "number as learner": return measured(learner=3)
        case "complex samples": return measured(samples=np.ones((1, 2), complex))
        case "text samples": return measured(samples=np.array([["a"]]))
        case "one row": return measured(statistic="alignment")
        case "no measurement": return [1]
        case "none": return None
        case "garbage on the pipe":
            for descriptor in range(3, 64):
                try: os.write(descriptor, b'{"size": 0}\\n')
                except OSError: pass
        case "another cell's answer":
            for descriptor in range(3, 64):
                try: os.write(descriptor, b'{"size": 0, "cell": "0123", "pid": 1, "record": {}}\\n')
                except OSError: pass
    return measured()

def seconds(config):
    if FORECAST == "raises": raise RuntimeError("no idea")
    return FORECAST

FORECAST = 1.0

def read(results):
    return Report(notes=[f"{results.num_finished} cells."])

KIND = ExperimentKind(HostileConfig, run_cell, seconds, read)
"""


@pytest.fixture(scope="module")
def yaml(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "hostile_kind.py").write_text(dedent(KIND))
    path = folder / "hostile.yaml"
    path.write_text("{title: T, question: Q?, kind: 'hostile_kind:KIND'}")
    return str(path)


def run(yaml: str, folder: Path, acts: list[str], *arguments: str, engine: str = "local") -> Outcome:
    swept = ",".join(f'"{act}"' for act in acts)
    resolved = resolve(yaml, [f"act={swept}", *arguments])
    return run_experiment(resolved, folder, engine=engine, workers=1, quiet=True)


def acts_of(folder: Path, outcome: Outcome) -> dict[str, str]:
    """Why the cell of each act failed."""
    config = json.loads((folder / "config.json").read_text())
    return {c["config"]["act"]: outcome.failed[c["id"]] for c in config["cells"] if c["id"] in outcome.failed}


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def check_all_ended(pids: Path) -> None:
    for pid in map(int, pids.read_text().split()):
        end = time.monotonic() + 10
        while is_running(pid):
            assert time.monotonic() < end, f"{pid} lives on"
            time.sleep(0.02)


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_forks_answer_nothing(yaml, tmp_path, engine):
    forks = ["nothing", "fork", "fork and exit", "fork and raise", "fork and stay"]
    outcome = run(yaml, tmp_path / "run", forks, "seed=0..2", f"place={tmp_path / 'pids'}", engine=engine)
    assert outcome.failed == {}
    for path in (tmp_path / "run").glob("cells/*/cell.json"):
        record = json.loads(path.read_text())
        # Each cell measured its own seed; an answer of another would have the seed of that one.
        assert np.all(load_file(path.with_name("values.safetensors"))["0"] == record["config"]["seed"])
        assert record["id"] == path.parent.name
    # A process that a cell left behind does not hold the folder.
    assert main(["report", str(tmp_path / "run")]) == 0
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        if engine == "inline":
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    check_all_ended(tmp_path / "pids")


def test_what_a_dead_worker_leaves_behind(yaml, tmp_path):
    acts = ["fork, stay and die", "start a program", "nothing"]
    outcome = run(yaml, tmp_path / "run", acts, f"place={tmp_path / 'pids'}")
    assert list(acts_of(tmp_path / "run", outcome)) == ["fork, stay and die"]
    assert len((tmp_path / "pids").read_text().split()) == 2
    check_all_ended(tmp_path / "pids")


def test_a_disturbed_pipe(yaml, tmp_path):
    outcome = run(yaml, tmp_path, ["garbage on the pipe", "nothing", "another cell's answer", "stdin"])
    failed = acts_of(tmp_path, outcome)
    assert failed.keys() == {"garbage on the pipe", "another cell's answer"}
    assert all("lost its way" in reason for reason in failed.values())
    assert "cell 0123 from the process 1" in failed["another cell's answer"]


RAISING = {
    "sys.exit": "SystemExit: 0",
    "SystemExit": "SystemExit: enough",
    "KeyboardInterrupt": "KeyboardInterrupt",
    "GeneratorExit": "GeneratorExit",
    "BaseException": "BaseException: base",
    "unprintable": "Unprintable",
    "odd message": r"ValueError: a\ud800b\x1b[31mred",
}
REFUSED = {
    "surrogate learner": "which UTF-8 cannot hold",
    "surrogate key": "which UTF-8 cannot hold",
    "list key": "error of learner has [1, 2] under the key 'k'; expected a string or a finite number",
    "nan key": "error of learner has nan under the key 'k'",
    "huge key": "error of learner has 1000000000000000000000000000000 under the key 'k'",
    "huge samples": "has samples up to 1e+308, which no sum holds",
    "huge examples": "num_examples of error of learner is 1000000000000000000000000000000; expected an integer in",
    "half an example": "num_examples of error of learner is 1.5; expected an integer",
    "negative examples": "num_examples of error of learner is -1",
    "number as learner": "the learner of a measurement is 3; expected a string",
    "complex samples": "the samples of error of learner are of the type complex128; expected real numbers",
    "text samples": "expected real numbers",
    "one row": "the samples of error of learner have shape (1, 4); expected (2, prompts)",
    "no measurement": "AttributeError",
    "none": "TypeError",
}


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_whatever_a_cell_raises(yaml, tmp_path, engine):
    outcome = run(yaml, tmp_path, [*RAISING, "long message", *REFUSED, "nothing"], engine=engine)
    failed = acts_of(tmp_path, outcome)
    assert {act: failed[act] for act in RAISING} == RAISING
    for act, message in REFUSED.items():
        assert message in failed[act]
    assert failed.keys() == {*RAISING, "long message", *REFUSED}
    assert len(failed["long message"]) <= 300
    assert failed["long message"].startswith("ValueError: xxx")
    for cell, reason in outcome.failed.items():
        error = (tmp_path / "cells" / cell / "error.txt").read_text()
        assert error.startswith(f"{reason}\n\n")
        assert "Traceback" in error
    assert outcome.num_finished == 1
    assert outcome.report is not None


def test_sys_exit_ends_the_command_with_1(yaml, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert main(["run", yaml, "act=sys.exit", "--out", str(tmp_path / "run"), "--quiet", "--engine", "inline"]) == 1
    assert "failed: SystemExit: 0 (see " in capsys.readouterr().err


def test_a_worker_has_nothing_to_read(yaml, tmp_path):
    outcome = run(yaml, tmp_path, ["stdin", "nothing"], "place=read")
    assert outcome.failed == {}
    records = [json.loads(p.read_text()) for p in tmp_path.glob("cells/*/cell.json")]
    assert {"read": ""} in [r["measurements"][0]["keys"] for r in records]


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_another_working_folder(yaml, tmp_path, monkeypatch, engine):
    monkeypatch.chdir(tmp_path)
    outcome = run(yaml, Path("out"), ["chdir", "nothing"], engine=engine)
    assert Path.cwd() == tmp_path
    assert (outcome.folder, outcome.report) == (Path("out"), Path("out/report.html"))
    assert outcome.num_finished == 2
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize("forecast", [float("inf"), float("nan"), -1.0, "soon", None, "raises"])
def test_forecasts_that_are_none(yaml, tmp_path, capsys, monkeypatch, forecast):
    resolve(yaml)
    monkeypatch.setattr(sys.modules["hostile_kind"], "FORECAST", forecast)
    assert math.isnan(resolve(yaml).seconds)
    assert run(yaml, tmp_path, ["nothing"], "seed=0,1", engine="inline").num_finished == 2
    assert main(["show", yaml]) == 0
    assert "cells: 1 cell, of a duration that its kind does not know" in capsys.readouterr().out
    assert main(["show", yaml, "--json"]) == 0

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    assert json.loads(capsys.readouterr().out, parse_constant=refuse)["seconds"] is None
