"""Executors of a user's own (`--engine module:Class`): what a wrong one costs, and that a right one changes no bit."""

from pathlib import Path
from textwrap import dedent

import pandas as pd
import pytest
import torch

from iclab.cli.main import main
from iclab.experiments import resolve
from iclab.runs import load_results, run_experiment

pytestmark = pytest.mark.usefixtures("no_rendering")

COIN = str(Path(__file__).parents[1] / "kinds" / "coin.yaml")
FRAME = """
from iclab.runs import Executor, Failed, Measured, measure

class Own(Executor):
    name = "own"

    def run(self, jobs, execution, workers):
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write an executor whose method ``run`` has this body; returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    threads = torch.get_num_threads()

    def write(body: str) -> str:
        module = f"own_{abs(hash(body))}"
        Path(f"{module}.py").write_text(
            FRAME + "".join(f"        {line}\n" for line in dedent(body).strip().splitlines())
        )
        return f"{module}:Own"

    yield write
    torch.set_num_threads(threads)


def command(engine: str, out: str) -> list[str]:
    return ["run", COIN, "--engine", engine, "--quiet", "--out", out]


def test_results_are_those_of_the_engine_inline(own):
    engine = own("""
        assert workers >= 1
        for job in reversed(jobs):
            yield measure(job, execution)
    """)
    for name in ("inline", engine):
        run_experiment(resolve(COIN), name.partition(":")[0], engine=name, quiet=True)
    first, second = (Path(name, "results.csv").read_bytes() for name in ("inline", engine.partition(":")[0]))
    assert first == second
    results = load_results(engine.partition(":")[0])
    assert results.environment["engine"] == "own"
    assert results.num_finished == 4


@pytest.mark.parametrize(
    ("body", "reason", "finished"),
    [
        ("return [measure(job, execution) for job in jobs[:3]]", "the engine own yielded nothing for this cell", 3),
        ("return None", "the engine own stopped: TypeError: 'NoneType' object is not iterable", 0),
        (
            "yield measure(jobs[0], execution)\nraise ConnectionError('the cluster\\nis gone')",
            "the engine own stopped: ConnectionError: the cluster is gone",
            1,
        ),
        ("for job in jobs: yield Failed(job.cell, 'no machine', 'none was free')", "no machine", 0),
    ],
)
def test_cells_without_a_measurement_have_failed_and_are_tried_again(own, capsys, body, reason, finished):
    assert main(command(own(body), "run")) == 1
    lines = capsys.readouterr().err.splitlines()
    failed = [line for line in lines if line.startswith("cell ")]
    assert len(failed) == 4 - finished
    assert all(f"failed: {reason} (see run/cells/" in line for line in failed)
    kept = {path.parent.name: path.stat().st_mtime_ns for path in Path("run").glob("cells/*/cell.json")}
    assert len(kept) == finished
    assert main(command("inline", "run")) == 0
    again = {path.parent.name: path.stat().st_mtime_ns for path in Path("run").glob("cells/*/cell.json")}
    assert len(again) == 4
    assert kept.items() <= again.items()
    assert not list(Path("run").glob("cells/*/error.txt"))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("yield measure(jobs[0], execution)\nyield 3", "yielded 3"),
        ("for job in [*jobs, jobs[0]]: yield measure(job, execution)", "yielded Measured("),
        ("yield Failed('another', 'why', '')", "yielded Failed(cell='another'"),
        ("raise __import__('iclab.errors').errors.InputError('no queue is called long')", "no queue is called long"),
    ],
)
def test_what_no_executor_may_do_ends_the_run_in_one_line(own, capsys, body, found):
    assert main(command(own(body), "run")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert found in line
    assert len(line) <= 400
    assert main(command("inline", "run")) == 0  # what was finished is kept, the lock is free
    assert len(pd.read_csv("run/results.csv")["cell"].unique()) == 4


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("class Own: pass", "expected a class derived from iclab.runs.Executor"),
        ("from iclab.runs import Executor\nclass Own(Executor): name = 'own'", "cannot be built"),
        ("from iclab.runs import Executor\nclass Own(Executor):\n    def run(self, *a): pass", "has no name"),
        (
            "from iclab.runs import Executor\nclass Own(Executor):\n    name = 'own'\n"
            "    def __init__(self, queue): pass\n    def run(self, *a): pass",
            "expected a class without arguments",
        ),
        ("import nothing_of_that_name", "cannot be imported"),
        ("1/0", "cannot be imported"),
    ],
)
def test_what_is_no_executor_is_refused_before_anything_is_written(tmp_path, monkeypatch, capsys, source, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    module = f"refused_{abs(hash(source))}"
    Path(f"{module}.py").write_text(source)
    assert main(command(f"{module}:Own", "run")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not Path("run").exists()
