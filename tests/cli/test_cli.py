"""The command line: output, exit codes, and what it must not import or write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iclab import __version__
from iclab.cli.main import main
from iclab.experiments.definitions import catalogue_names
from iclab.experiments.resolved import resolve
from iclab.ops import backends

COIN = str(Path(__file__).parents[1] / "kinds" / "coin.yaml")


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    """Every command starts in an empty folder, where tests see what it wrote."""
    monkeypatch.chdir(tmp_path)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        monkeypatch.setenv(name, "1")


def test_reading_commands_do_not_import_torch():
    commands = [["--help"], ["list"], ["list", "--json"], ["run", "--help"], ["show", COIN, "seed=0..9"]]
    commands += [["show", name] for name in catalogue_names()]
    code = (
        "import json, sys\n"
        "from iclab.cli.main import main\n"
        "for arguments in json.loads(sys.argv[1]):\n"
        "    code = main(arguments)\n"
        "    heavy = sorted({'torch', 'scipy', 'pandas', 'matplotlib'} & set(sys.modules))\n"
        "    if code or heavy: sys.exit(f'{arguments} exits with {code} and imports {heavy}')\n"
    )
    process = subprocess.run([sys.executable, "-c", code, json.dumps(commands)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def test_run_prints_the_report_and_uses_the_default_folder(capsys):
    assert main(["run", COIN, "seed=3", "--coin.bias=0.5", "--engine", "inline", "--quiet"]) == 0
    folder = Path("runs") / resolve(COIN, ["seed=3", "coin.bias=0.5"]).folder_name
    captured = capsys.readouterr()
    assert captured.out == f"{folder / 'report.html'}\n"
    assert captured.err == ""
    assert (folder / "results.csv").exists()
    (folder / "summary.csv").unlink()
    assert main(["report", str(folder)]) == 0
    assert (folder / "summary.csv").exists()


def test_report_of_a_users_kind_in_another_process():
    """The folder of the kind's module is recorded with the run."""
    assert main(["run", COIN, "seed=3", "coin.bias=0.5", "--engine", "inline", "--quiet", "--out", "run"]) == 0
    before = Path("run/results.csv").read_bytes()
    Path("run/results.csv").unlink()
    command = [sys.executable, "-m", "iclab", "report", "run"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert (process.returncode, process.stdout, process.stderr) == (0, "run/report.html\n", "")
    assert Path("run/results.csv").read_bytes() == before


def test_failed_cells_end_with_1(capsys):
    arguments = ["run", COIN, "trouble.how=raise", "coin.bias=0.5", "--engine", "inline", "--quiet", "--out", "run"]
    assert main(arguments) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    cell = resolve(COIN, arguments[2:4]).cells[0].id
    assert lines[0] == f"cell {cell} failed: ArithmeticError: the coin rolled away (see run/cells/{cell}/error.txt)"
    assert lines[1:] == ["1 of 2 cells are finished", "1 of 2 cells failed; the same command retries them"]
    assert main(["report", "run"]) == 0
    assert "1 of 2 cells are finished" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "coin"], "no experiment 'coin'"),
        (["run", "nowhere.yaml"], "no file 'nowhere.yaml'"),
        (["run", COIN, "coin.bais=1"], "unknown key 'coin.bais', did you mean 'coin.bias'?"),
        (["run", COIN, "--coin.bais=1"], "unknown key 'coin.bais', did you mean 'coin.bias'?"),
        (["show", COIN, "seed=x"], "seed is 'x'; expected an integer"),
        (["run", COIN, "seed="], "a grid with no cell"),
        (["run", COIN, "seed"], "cannot read 'seed'; expected key=value"),
        (["run", COIN, "--worker", "2"], "no option '--worker', did you mean '--workers'?"),
        (["run", COIN, "--worker=2"], "no option '--worker', did you mean '--workers'?"),
        (["run", COIN, "coin.limit=4"], "num_examples goes to 8; expected at most 4"),
        (["run", COIN, "--engine", "inline", "--workers", "2"], "use the engine local"),
        (["run", COIN, "--engine", "ray"], "unknown engine 'ray'; expected one of 'inline', 'local', or module:Class"),
        (["run", COIN, "--engine", "locl"], "unknown engine 'locl', did you mean 'local'?"),
        (["run", COIN, "--engine", "nowhere:Engine"], "the engine 'nowhere:Engine' cannot be imported"),
        (["run", COIN, "--engine", "json:loads"], "expected a class derived from iclab.runs.Executor"),
        (["run", COIN, "--threads", "100000"], "threads is 100000 and this machine offers"),
        (["run", COIN, "--workers", "100000"], "workers is 100000 and this machine offers"),
        (["run", COIN, "coin.bias=\udcff"], "holds bytes that are not valid UTF-8"),
        (["run", "a\udcff.yaml"], "the name 'a\\udcff.yaml' holds bytes that are not valid UTF-8"),
        (["show", COIN, f"seed={10**400}"], "an integer of over 300 digits"),
        (["exponents", "z\udcff"], "the link 'z\\udcff' holds bytes that are not valid UTF-8"),
        (["report", "."], "has no config.json"),
        (["report", "nowhere"], "no folder nowhere"),
        (["exponents", "[1,x]"], "no list of numbers"),
        (["exponents", "--nois=1"], "no option '--nois=1'"),
        (["exponents", "q(z)"], "q"),
    ],
)
def test_bad_input_ends_with_2_and_writes_nothing(capsys, tmp_path, arguments, message):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["run"], "error: Missing argument 'NAME'; see `iclab run --help`\n"),
        (["run", COIN, "--workers", "0"], "0 is not in the range x>=1; see `iclab run --help`\n"),
        (["report", "a", "b"], "error: Got unexpected extra argument (b); see `iclab report --help`\n"),
        (["go"], "error: No such command 'go'; see `iclab --help`\n"),
        (["--go"], "; see `iclab --help`\n"),
    ],
)
def test_usage_errors_are_one_line(capsys, tmp_path, arguments, line):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.endswith(line)
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_no_command_shows_the_help(capsys):
    assert main([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_folder_that_cannot_be_written(capsys, tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in ("file", "file/run"):
        assert main(["run", COIN, "--engine", "inline", "--out", out]) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1
        assert out in captured.err
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("loop", "loop is a link that leads nowhere"),
        ("loop/run", "loop is a link that leads nowhere"),
        ("dangling", "dangling is a link that leads nowhere"),
        ("dangling/run", "dangling is a link that leads nowhere"),
        ("x" * 300, "File name too long"),
        ("file/run", "Not a directory"),
        ("", "the name is empty"),
    ],
)
def test_folders_that_cannot_be_made(capsys, tmp_path, out, reason):
    (tmp_path / "loop").symlink_to("back")
    (tmp_path / "back").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").touch()
    before = sorted(tmp_path.iterdir())
    assert main(["run", COIN, "seed=0", "--engine", "inline", "--out", out]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert (error.count("\n"), len(error) < 650) == (1, True)
    assert sorted(tmp_path.iterdir()) == before


def test_errors_keep_both_ends(capsys):
    assert main(["show", COIN, f"coin.{'b' * 3000}=1", "seed=0"]) == 2
    error = capsys.readouterr().err
    assert len(error) < 650
    assert error.startswith("error: unknown key 'coin.bbb")
    assert " ... " in error


def test_terminals_that_lack_characters(tmp_path):
    """As under the code page of a western Windows."""
    path = tmp_path / "mine.yaml"
    path.write_text(Path(COIN).read_text().replace("Throwing coins", "T\u00e9st \u2192"), encoding="utf-8")
    (tmp_path / "coin.py").symlink_to(Path(COIN).with_suffix(".py"))
    environment = os.environ | {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    for arguments, code, words in (
        (["show", str(path)], 0, "T\u00e9st \\u2192 (Bernoulli 1713)"),
        (["show", str(path), "seed=\u2192"], 2, "seed is '\\u2192'; expected an integer"),
    ):
        command = [sys.executable, "-m", "iclab", *arguments]
        process = subprocess.run(command, capture_output=True, env=environment)
        assert process.returncode == code
        assert words in (process.stdout + process.stderr).decode("cp1252")
        assert b"Traceback" not in process.stderr


@pytest.mark.parametrize("scale", ["../../x", "a/b", "..", "", "a\\b", "a\nb", "x" * 101])
def test_names_of_scales_stay_inside_the_run_folder(tmp_path, capsys, scale):
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({"title": "T", "question": "Q", "kind": "alignment", "scales": {scale: {}}}))
    assert main(["show", str(path), f"scale={scale or 'x'}"]) == 2
    assert "a scale is " in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [path]


def test_names_of_files_and_entries(tmp_path, capsys):
    (tmp_path / "coin.py").symlink_to(Path(COIN).with_suffix(".py"))
    path = tmp_path / "a\nb.yaml"
    path.write_text(Path(COIN).read_text())
    assert main(["show", str(path)]) == 2
    assert "the name of the YAML file is 'a\\nb', with '\\n'" in capsys.readouterr().err
    assert main(["show", COIN, 'others={"a\\nb": {bias: 1}}']) == 2
    assert "an entry of others is 'a\\nb', with '\\n'" in capsys.readouterr().err


def test_show(capsys):
    assert main(["show", COIN, "scale=full", "coin.bias=1e-4,0.5"]) == 0
    text = capsys.readouterr().out
    for line in (
        "Throwing coins (Bernoulli 1713)",
        "scale: full (also: laptop)",
        "  seed: [0, 1, 2, 3, 4]",
        "  coin.bias: [0.0001, 0.5]",
        "cells: 10 cells, about 0 s on one core",
        "  num_throws: 64",
        "    bias: 0.0001",
    ):
        assert line in text.splitlines()
    assert main(["show", COIN, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["grid"] == {"seed": [0, 1], "coin.bias": [0.25, 0.5]}
    assert (shown["num_cells"], shown["scales"]) == (4, ["laptop", "full"])
    assert shown["run_id"] == resolve(COIN).run_id


def test_list_names_the_catalogue(capsys):
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == catalogue_names()
    assert main(["list", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in entries] == catalogue_names()
    for entry in entries:
        assert entry.keys() == {"name", "title", "question", "source", "kind", "scales"}


def test_exponents(capsys):
    assert main(["exponents", "he3", "--rho", "0.5", "--b", "-3", "--json"]) == 0
    description = json.loads(capsys.readouterr().out)
    # He_3 is its own lowest degree; an odd polynomial always has a transform with a linear part.
    assert description["information_exponent"]["value"] == 3
    assert description["generative_exponent"]["value"] == 1
    assert [(row["rho"], row["b"]) for row in description["gated_exponents"]] == [(0.5, -3.0)]
    assert main(["exponents", "[0,0,0,1]"]) == 0
    assert "information exponent ie           3" in capsys.readouterr().out
    assert main(["exponents", "-z**3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["information_exponent"]["value"] == 1


def test_doctor(capsys, tmp_path):
    assert main(["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert findings["checks"] == {"libraries installed": True, "folder writable": True, "folder has locks": True}
    assert findings["versions"]["iclab"] == __version__
    assert findings["devices"]["cpu"] is True
    assert findings["scan"]["torch"] == "available"
    assert findings["scan"] == backends()
    assert list(tmp_path.iterdir()) == []
    assert main(["doctor"]) == 0
    assert "  folder has locks: yes" in capsys.readouterr().out.splitlines()


def test_reader_that_goes_away():
    """As in ``iclab show NAME | head -1``."""
    command = [sys.executable, "-m", "iclab", "show", COIN]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 0


def test_a_check_that_calls_exit_is_no_success(tmp_path, capsys):
    (tmp_path / "leaver.py").write_text(
        "import sys\nfrom iclab.experiments.kind import Config, ExperimentKind\n"
        "class Seeded(Config):\n    seed: int = 0\n"
        "KIND = ExperimentKind(Seeded, lambda _: [], lambda _: 0.0, lambda _: None, lambda _: sys.exit(0))\n"
    )
    (tmp_path / "leaver.yaml").write_text("{title: T, question: Q, kind: 'leaver:KIND'}")
    assert main(["run", str(tmp_path / "leaver.yaml"), "--out", str(tmp_path / "run")]) == 2
    assert not (tmp_path / "run").exists()
    assert "called sys.exit(0)" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["--help"], ["list"], ["list", "--json"], ["show", COIN]])
def test_readers_that_read_nothing(command):
    """As in ``iclab list | true``."""
    process = subprocess.run(
        f"set -o pipefail; {sys.executable} -m iclab {' '.join(command)} | true",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.parametrize(("how", "code"), [("none", 0), ("raise", 1)])
def test_a_run_whose_reader_is_gone_says_how_it_ended(how, code, tmp_path):
    command = f"{sys.executable} -m iclab run {COIN} trouble.how={how} coin.bias=0.5 --engine inline --out run"
    process = subprocess.run(
        f"set -o pipefail; {command} | true", shell=True, executable="/bin/bash", cwd=tmp_path, stderr=subprocess.PIPE
    )
    assert process.returncode == code
    assert b"Traceback" not in process.stderr
    assert b"Broken pipe" not in process.stderr


@pytest.mark.parametrize(("closed", "engine"), [("2>&-", "inline"), ("<&- >&- 2>&-", "local")])
def test_closed_streams(closed, engine, tmp_path):
    """Nothing that is printed may end in a file that was opened meanwhile."""
    command = f"{sys.executable} -m iclab run {COIN} trouble.how=print seed=0 coin.bias=0.5 --out run --engine {engine}"
    assert subprocess.run(f"{command} {closed}", shell=True, cwd=tmp_path).returncode == 0
    assert sorted(json.loads((tmp_path / "run" / "lock").read_text())) == ["host", "pid", "start"]
    assert main(["report", "run"]) == 0
    assert subprocess.run(f"{sys.executable} -m iclab show nothing {closed}", shell=True).returncode == 2


def test_paths_that_are_no_utf8(capfdbinary, tmp_path):
    out = tmp_path / "a\udcff"
    assert main(["run", COIN, "seed=3", "coin.bias=0.5", "--engine", "inline", "--out", str(out)]) == 0
    assert capfdbinary.readouterr().out == os.fsencode(out / "report.html") + b"\n"
    assert json.loads((out / "environment.json").read_bytes())["seconds"] > 0
    assert main(["report", str(tmp_path / "b\udcff")]) == 2
    assert b"b\\udcff" in capfdbinary.readouterr().err


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"iclab, version {__version__}\n"
