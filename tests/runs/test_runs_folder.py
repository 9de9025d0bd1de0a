"""What a run folder says of itself: edited descriptions, files of somebody else, results of other code."""

from __future__ import annotations

import copy
import io
import json
import shutil
from pathlib import Path

import pytest

from iclab import __version__
from iclab.code_version import code_version
from iclab.config.identity import run_id
from iclab.errors import InputError
from iclab.experiments.resolved import resolve
from iclab.runs.results import load_results
from iclab.runs.run import Outcome, remake, run_experiment
from iclab.runs.storage import _checksum

COIN = str(Path(__file__).parents[1] / "kinds" / "coin.yaml")
CELL = {"id": "../..", "config": {}, "labels": {}}


def run(folder: Path, *arguments: str, stream: io.StringIO | None = None) -> Outcome:
    resolved = resolve(COIN, ["num_throws=9", *arguments])
    return run_experiment(resolved, folder, engine="inline", quiet=stream is None, stream=stream)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("folder") / "run"
    run(folder)
    return folder


@pytest.fixture
def folder(finished, tmp_path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def config_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def cut(config: dict) -> None:
    del config["cells"][1]


def cut_consistently(config: dict) -> None:
    cut(config)
    config["run_id"] = run_id(config["experiment"], config["kind"], [cell["id"] for cell in config["cells"]])


def twice(config: dict) -> None:
    config["cells"].append(copy.deepcopy(config["cells"][0]))


def edit_cell(config: dict) -> None:
    config["cells"][2]["config"]["num_throws"] = 10


def lose_axis(config: dict) -> None:
    del config["grid"]["coin.bias"]


def put(key: str, value: object):
    return lambda config: config.__setitem__(key, value)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (cut, "the run id is not that of the experiment and its cells"),
        (twice, "a cell stands in it twice"),
        (edit_cell, "is not that of its configuration"),
        (lose_axis, "its grid lacks a key in which the cells differ"),
        (put("config", None), "its config is not that of the first cell"),
        (put("config", {"seed": 1}), "its config is not that of the first cell"),
        (put("cells", 5), "its cells are no list of ids and configurations"),
        (put("cells", []), "its cells are no list of ids and configurations"),
        (put("cells", [5]), "its cells are no list of ids and configurations"),
        (put("cells", [CELL]), "the id of the cell ../.. is not that of its configuration"),
        (put("grid", None), "its grid gives no values to keys"),
        (put("grid", {"seed": 3}), "its grid gives no values to keys"),
        (put("grid", {"seed": [0, 1, 2], "coin.bias": [0.25, 0.5]}), "gives other values to seed than its cells"),
        (put("experiment", "other"), "the run id is not that of the experiment"),
        (put("experiment", 3), "its experiment is no text"),
        (put("kind", "error"), "is not that of its configuration"),
        (put("run_id", "0123456789ab"), "the run id is not that"),
        (put("title", ["x"]), "its title is no text"),
        (put("scale", None), "its scale is no text"),
    ],
)
def test_edited_descriptions_are_refused(folder, edit, message):
    config = config_of(folder)
    edit(config)
    (folder / "config.json").write_text(json.dumps(config))
    for action in (lambda: run(folder), lambda: remake(folder), lambda: load_results(folder)):
        with pytest.raises(InputError) as caught:
            action()
        text = str(caught.value)
        assert str(folder / "config.json") in text
        assert message in text
        assert text.endswith("; restore it, or run into another folder")
        assert "\n" not in text


def test_values_that_no_configuration_has(folder):
    text = (folder / "config.json").read_text().replace('"num_throws": 9', '"num_throws": NaN')
    (folder / "config.json").write_text(text)
    with pytest.raises(InputError, match="it holds values that no configuration has"):
        load_results(folder)


def test_a_run_of_fewer_cells_is_another_run(folder):
    """Ids can be made to agree; then it is another run, which the fresh experiment is not."""
    config = config_of(folder)
    cut_consistently(config)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="holds another run"):
        run(folder)


def test_a_run_speaks_for_itself_and_not_its_file(folder):
    config = config_of(folder)
    (folder / "config.json").write_text(json.dumps(config | {"title": "Another title", "scale": "huge"}))
    assert run(folder).num_finished == 4
    assert "Another title" not in (folder / "report.html").read_text()
    assert config_of(folder) == config


def test_folders_of_an_earlier_version_open(folder):
    """Without captions, and with cells that do not say which code computed them."""
    config = config_of(folder)
    for key in ("title", "question", "source"):
        del config[key]
    (folder / "config.json").write_text(json.dumps(config))
    for path in folder.glob("cells/*/cell.json"):
        forget_code(path)
    assert load_results(folder).num_finished == 4
    assert remake(folder).num_finished == 4
    assert run(folder).num_finished == 4


def test_cells_of_another_version_are_named(folder):
    """Whose checksum is right, and whose measurements are described otherwise."""
    path = next(folder.glob("cells/*/cell.json"))
    record = json.loads(path.read_text())
    for measurements in ([{"name": "x"}] * len(record["measurements"]), record["measurements"][:-1], 5):
        sign(path, record | {"measurements": measurements})
        for action in (lambda: run(folder), lambda: remake(folder), lambda: load_results(folder)):
            with pytest.raises(InputError, match="has measurements that this iclab cannot read; delete"):
                action()


def forget_code(path: Path) -> None:
    record = json.loads(path.read_text())
    del record["code"], record["scan_backend"]
    sign(path, record)


def sign(path: Path, record: dict) -> None:
    record["checksum"] = _checksum(record, path.with_name("values.safetensors").read_bytes())
    path.write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"previous": 5}', "no list of sessions"),
        ('{"previous": [5]}', "no list of sessions"),
        ('{"kind_folder": 5}', "kind_folder that is no text"),
        ("[]", "describes no session"),
        ("{", "no JSON any more"),
    ],
)
def test_damaged_environments(folder, content, message):
    (folder / "environment.json").write_text(content)
    next(folder.glob("cells/*/cell.json")).unlink()
    for action in (lambda: run(folder), lambda: remake(folder), lambda: load_results(folder)):
        with pytest.raises(InputError, match=message) as caught:
            action()
        assert str(caught.value).startswith(str(folder / "environment.json"))
        assert str(caught.value).endswith("; delete it to go on")


def test_files_that_only_look_like_ours(tmp_path):
    for name, content in (("lock", "mine"), ("lock", ""), ("lock", '{"pid": 1}'), (".x.tmp", ""), (".a.tmp", "x")):
        path = tmp_path / "own" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        with pytest.raises(InputError, match=rf"files that are no run \({name}\)"):
            run(path.parent)
        assert path.read_text() == content
        path.unlink()
    # What a run of ours left before it wrote anything is no obstacle.
    leftover = tmp_path / "run" / ".0123456789abcdef.tmp"
    leftover.parent.mkdir()
    leftover.touch()
    (tmp_path / "run" / "lock").write_text('{"pid": 1, "host": "h", "start": "s"}')
    assert run(leftover.parent).num_finished == 4
    assert not leftover.exists()


def test_own_files_in_a_run_folder_are_kept(folder):
    (folder / ".x.tmp").write_text("mine")
    assert run(folder).num_finished == 4
    assert (folder / ".x.tmp").read_text() == "mine"


def test_cells_say_which_code_computed_them(folder):
    code = code_version("coin")
    assert code is not None
    assert json.loads((folder / "environment.json").read_text())["code"] == code
    assert {json.loads(p.read_text())["code"] for p in folder.glob("cells/*/cell.json")} == {code}
    assert "cells by code" not in (folder / "report.html").read_text()


def test_a_mixture_of_code_is_reported(folder):
    code = code_version("coin")
    cells = sorted(folder.glob("cells/*/cell.json"))
    sign(cells[0], json.loads(cells[0].read_text()) | {"code": "0123456789abcdef"})
    forget_code(cells[1])
    cells[2].unlink()
    stream = io.StringIO()
    run(folder, stream=stream)
    other, unknown, now = (f"iclab {__version__}, code {c}" for c in ("0123456789abcdef", "not recorded", code))
    assert stream.getvalue().splitlines()[0] == (
        f"warning: 2 of 3 finished cells were computed by other code ({other}; {unknown}) than is here now "
        f"({now}), and are kept; choose another --out to compute all cells anew"
    )
    again = io.StringIO()
    kept = [path.stat().st_mtime_ns for path in cells]
    run(folder, stream=again)  # nothing is left to compute, and it is said all the same
    assert again.getvalue().splitlines()[0].startswith("warning: 2 of 4 finished cells were computed by other code")
    assert [path.stat().st_mtime_ns for path in cells] == kept
    counts = {other: 1, unknown: 1, now: 2}
    assert json.loads((folder / "environment.json").read_text())["cells_by_code"] == counts
    page = (folder / "report.html").read_text()
    assert f"cells by code: {other}" in page
    assert f"cells by code: {unknown}" in page
