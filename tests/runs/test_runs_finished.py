"""A finished run given again draws nothing; whatever has changed is still found."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iclab.cli.main import main
from iclab.errors import InputError
from iclab.experiments.resolved import resolve
from iclab.runs import finished
from iclab.runs.finished import STAMP, finished_report
from iclab.runs.run import remake, run_experiment

COIN = str(Path(__file__).parents[1] / "kinds" / "coin.yaml")
ARGUMENTS = ("seed=0", "coin.bias=0.25,0.5")


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    run_experiment(resolve(COIN, ARGUMENTS), folder, engine="inline", quiet=True)
    return folder


@pytest.fixture
def run(once, tmp_path):
    return Path(shutil.copytree(once, tmp_path / "run"))


def page(folder):
    return finished_report(resolve(COIN, ARGUMENTS), folder)


def test_nothing_heavy_is_loaded(run):
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    code = (
        "import json, sys\n"
        "from iclab.cli.main import main\n"
        "code = main(json.loads(sys.argv[1]))\n"
        "sys.exit(code or ' '.join(sorted({'torch', 'scipy', 'pandas', 'matplotlib'} & set(sys.modules))))\n"
    )
    command = json.dumps(["run", COIN, *ARGUMENTS, "--out", str(run)])
    process = subprocess.run([sys.executable, "-c", code, command], capture_output=True, text=True)
    assert (process.stdout, process.stderr.strip()) == (f"{run / 'report.html'}\n", "")
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


@pytest.mark.parametrize("name", ["report.html", "results.csv", "summary.csv"])
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes() + b" ")])
def test_what_was_changed_is_made_again(run, name, damage, capsys):
    before = (run / name).read_bytes()
    damage(run / name)
    assert page(run) is None
    assert main(["run", COIN, *ARGUMENTS, "--out", str(run), "--quiet"]) == 0
    assert (run / name).read_bytes() == before
    assert page(run) == run / "report.html"


@pytest.mark.parametrize("name", ["values.safetensors", "cell.json"])
def test_a_changed_cell_is_found(run, name, capsys):
    path = next(run.glob(f"cells/*/{name}"))
    path.write_bytes(path.read_bytes()[:-2] + b"x\n")
    with pytest.raises(InputError, match=r"delete .* to recompute it"):
        page(run)
    assert main(["run", COIN, *ARGUMENTS, "--out", str(run), "--quiet"]) == 2
    assert "to recompute it" in capsys.readouterr().err


def test_other_code_words_or_cells_draw_again(run, monkeypatch):
    assert page(run) == run / "report.html"
    assert finished_report(resolve(COIN, ["seed=0"]), run) == run / "report.html"  # the same cells
    assert finished_report(resolve(COIN, ["seed=1"]), run) is None
    (run / "environment.json").write_text("{}")
    assert page(run) is None
    remake(run)
    assert page(run) is not None
    monkeypatch.setattr(finished, "package_versions", lambda: {"matplotlib": "0"})
    assert page(run) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000])
def test_a_damaged_stamp_is_none(run, text):
    (run / STAMP).write_text(text)
    assert page(run) is None


def test_an_unfinished_run_has_no_page(run):
    shutil.rmtree(next(run.glob("cells/*")))
    assert page(run) is None
