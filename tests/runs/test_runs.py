"""Run folders, tables, results, failures: on the inline engine, in this process."""

from __future__ import annotations

import io
import json
import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from iclab.errors import InputError
from iclab.evaluation.intervals import interval
from iclab.experiments.kind import learner_names
from iclab.experiments.resolved import Resolved, resolve
from iclab.lock import locked
from iclab.results.results import Results
from iclab.runs.results import learners_by_key, load_results
from iclab.runs.run import Outcome, remake, run_experiment

COIN = str(Path(__file__).parents[1] / "kinds" / "coin.yaml")
TABLES = ("results.csv", "summary.csv")


def run(folder: Path, *arguments: str) -> Outcome:
    return run_experiment(resolve(COIN, arguments), folder, engine="inline", quiet=True)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def read_exactly(path: Path) -> pd.DataFrame:
    """A table whose numbers are read by Python: pandas may round the last bit."""
    return pd.read_csv(path, converters=dict.fromkeys(("value", "low", "high"), float))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, Resolved, Outcome]:
    """A finished run; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("runs") / "coin"
    resolved = resolve(COIN, ["num_throws=2000"])
    return folder, resolved, run_experiment(resolved, folder, engine="inline", quiet=True)


@pytest.fixture
def copy(finished, tmp_path) -> Path:
    folder = tmp_path / "copy"
    for name, content in snapshot(finished[0]).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_folder_layout(finished):
    folder, resolved, outcome = finished
    assert outcome.num_finished == outcome.num_cells == 4
    assert outcome.failed == {}
    assert outcome.report == folder / "report.html"
    assert json.loads((folder / "config.json").read_text()) == json.loads(json.dumps(resolved.to_json()))
    assert {p.name for p in (folder / "cells").iterdir()} == {c.id for c in resolved.cells}
    assert not list(folder.rglob("*.tmp"))
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["engine"] == "inline"
    assert (environment["workers"], environment["threads"], environment["cells"]) == (1, 1, 4)
    assert environment["seconds"] > 0
    assert environment["torch"].split("+")[0].count(".") == 2


def test_results_table(finished):
    folder, resolved, _ = finished
    table = pd.read_csv(folder / "results.csv")
    header = "experiment,cell,learner,bias,part,seed,num_examples,metric,statistic,value,low,high,level,interval"
    assert ",".join(table.columns) == f"{header},num_prompts"
    assert len(table) == 4 * 5
    by_id = {cell.id: cell for cell in resolved.cells}
    for row in table.to_dict("records"):
        assert by_id[row["cell"]].to_json()["seed"] == row["seed"]
        assert by_id[row["cell"]].to_json()["coin"]["bias"] == row["bias"]
    # The variance of the mean of n throws of a coin, p(1-p)/n, and 1 more for the learner that is off by one.
    for (learner, bias, examples), group in table[table.metric == "squared_error"].groupby(
        ["learner", "bias", "num_examples"]
    ):
        expected = bias * (1 - bias) / examples + (learner == "off by one")
        error = 4 * math.sqrt(max(expected, 1e-3) / 2000)
        assert np.all(np.abs(group["value"] - expected) < error)
        assert ((group["low"] < group["value"]) & (group["value"] < group["high"])).all()
        assert set(group["interval"]) == {"prompts"}
        assert set(group["num_prompts"]) == {2000}
    exact = table[table.learner == "theory"]
    assert (exact["value"] == exact["bias"]).all()
    assert set(exact["num_prompts"]) == {0}
    assert exact["level"].isna().all()


def test_tables_hold_the_samples_to_the_last_bit(finished):
    folder, _, _ = finished
    table = read_exactly(folder / "results.csv")
    for cell, rows in table.groupby("cell"):
        stored = load_file(folder / "cells" / str(cell) / "values.safetensors")
        assert stored["0"].dtype == np.float32
        tensors = {name: tensor.astype(np.float64) for name, tensor in stored.items()}
        assert [tensors[str(i)].mean() for i in range(5)] == rows["value"].tolist()
        found = [interval([tensors[str(i)]], s) for i, s in enumerate(rows["statistic"])]
        assert [f.low for f in found] == rows["low"].tolist()
    # Whole numbers stay whole beside rows that have none.
    first = (folder / "results.csv").read_text().splitlines()[2].split(",")
    assert first[4] == "1"
    assert first[6] == "8"


def test_summary_over_seeds(finished):
    folder, _, _ = finished
    results = load_results(folder)
    summary = read_exactly(folder / "summary.csv")
    header = "experiment,learner,metric,statistic,num_examples,bias,part,value,low,high,level,interval"
    assert ",".join(summary.columns) == f"{header},num_prompts,num_seeds"
    assert len(summary) == 2 * 5
    assert set(summary["num_seeds"]) == {2}
    for row in results.summary.to_dict("records"):
        own = results.per_seed[(results.per_seed.learner == row["learner"]) & (results.per_seed.bias == row["bias"])]
        if row["metric"] == "squared_error":
            own = own[own.num_examples == row["num_examples"]]
        assert row["seed_values"] == own.sort_values("seed")["value"].tolist()
        assert row["value"] == pytest.approx(np.mean(row["seed_values"]), rel=1e-15)
        assert (row["low"], row["high"]) == (min(row["seed_values"]), max(row["seed_values"]))
    assert set(summary["interval"]) == {"range", "exact"}
    assert summary["value"].tolist() == results.summary["value"].tolist()


def test_select(finished):
    results = load_results(finished[0])
    assert isinstance(results, Results)
    assert results.num_cells == results.num_finished == 4
    assert len(results.select(learner="mean", bias=0.5)) == 2
    assert results.select(learner="mean", bias=0.5, num_examples=[8])["part"].tolist() == [1]
    assert set(results.select(num_examples=None)["learner"]) == {"theory"}
    # Each value stands somewhere, if not together.
    assert results.select(learner="theory", num_examples=8).empty
    for filters, message in (
        ({"lerner": "mean"}, "no column 'lerner', did you mean 'learner'?"),
        ({"metric": "squared_eror"}, "no metric is 'squared_eror', did you mean 'squared_error'?"),
        ({"learner": "nobody"}, "no learner is 'nobody'; expected one of 'mean', 'off by one', 'theory'"),
        ({"learner": ["mean", "off by on"]}, "no learner is 'off by on', did you mean 'off by one'?"),
        ({"num_examples": 5}, "no num_examples is 5; expected one of 4, 8"),
        ({"bias": [0.5, 0.75]}, "no bias is 0.75; expected one of 0.25, 0.5"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            results.select(**filters)


@pytest.mark.parametrize(
    ("experiment", "keys"),
    [
        # Of these models the name says what they are; there is no label in the configuration.
        ("li2025/outlier-fraction", ["mamba", "linear"]),
        ("oh2025/error", ["mamba", "kernel_all"]),
    ],
)
def test_learners_are_found_by_key_and_by_name(experiment, keys):
    described = resolve(experiment).to_json()
    labels = learner_names(resolve(experiment).cells[0].config)
    assert labels["mamba"] != "mamba"
    both = {key: labels[key] for key in keys}
    rows = [
        {"cell": "c", "learner": name, "seed": 0, "num_examples": 8, "metric": "squared_error", "statistic": "mean"}
        for name in both.values()
    ]
    table = pd.DataFrame(rows)
    samples = tuple(np.full((1, 8), float(row)) for row in range(len(rows)))
    results = Results(described, {}, table, table, samples, lambda: learners_by_key(described))
    first, second = both
    assert results.select(learner=first)["learner"].tolist() == [both[first]]
    assert results.select(learner=[first, both[second]])["learner"].tolist() == list(both.values())
    assert results.difference(first, second, "squared_error").value == -1.0
    with pytest.raises(InputError, match=re.escape(f"expected one of {both[first]!r}, {both[second]!r}")):
        results.select(learner="zzz")


def test_paired_difference(finished):
    results = load_results(finished[0])
    found = results.difference("off by one", "mean", "squared_error", bias=0.25, num_examples=4)
    rows = results.per_seed[(results.per_seed.bias == 0.25) & (results.per_seed.num_examples == 4)]
    by_seed = [
        results.samples[rows[(rows.seed == s) & (rows.learner == "off by one")].index[0]]
        - results.samples[rows[(rows.seed == s) & (rows.learner == "mean")].index[0]]
        for s in (0, 1)
    ]
    assert found.seed_values == tuple(d.mean() for d in by_seed)
    assert found.value == pytest.approx(np.mean(found.seed_values), rel=1e-15)
    assert (found.low, found.high, found.interval) == (*sorted(found.seed_values), "range")
    assert (found.num_prompts, found.num_seeds) == (2000, 2)
    # (m - b - 1)^2 - (m - b)^2 = 1 - 2(m - b), whose mean is 1 and whose variance is 4 p(1-p)/n.
    assert abs(found.value - 1) < 4 * math.sqrt(4 * 0.25 * 0.75 / 4 / 4000)


@pytest.mark.parametrize(
    ("arguments", "filters", "message"),
    [
        (("mean", "off by one", "squared_error"), {"bias": 0.5}, "depends on part, num_examples"),
        (("mean", "off by one", "squared_error"), {"num_examples": 4}, "depends on bias; give a value"),
        (
            ("mean", "nobody", "squared_error"),
            {"bias": 0.5, "num_examples": 4},
            "no learner is 'nobody'; expected one of 'mean', 'off by one', 'theory'",
        ),
        (
            ("mean", "theory", "bias"),
            {"bias": 0.5},
            "with bias=0.5; expected one of the learners 'theory'",
        ),
        (("mean", "off by one", "squared_error"), {"bais": 0.5}, "did you mean 'bias'"),
    ],
)
def test_bad_differences(finished, arguments, filters, message):
    with pytest.raises(InputError, match=message):
        load_results(finished[0]).difference(*arguments, **filters)


def test_same_command_again_changes_nothing(copy):
    before = snapshot(copy)
    assert run(copy, "num_throws=2000").num_finished == 4
    after = snapshot(copy)
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name] and name != "lock"] == []


def test_deleted_cells_are_computed_again(finished, copy):
    _, resolved, _ = finished
    before = snapshot(copy)
    for path in (copy / "cells" / resolved.cells[1].id).iterdir():
        path.unlink()
    # Without its record a cell is not finished, whatever else is there.
    (copy / "cells" / resolved.cells[2].id / "cell.json").unlink()
    (copy / "cells" / resolved.cells[2].id / ".0123456789abcdef.tmp").write_bytes(b"half")
    assert run(copy, "num_throws=2000").num_finished == 4
    after = snapshot(copy)
    assert before.keys() == after.keys()
    changed = {name for name in before if before[name] != after[name]}
    records = {f"cells/{c.id}/cell.json" for c in resolved.cells[1:3]}
    assert changed <= records | {"lock", "environment.json", "report.html", "report.json"}
    environment = json.loads(after["environment.json"])
    assert environment["cells"] == 2
    assert [e["cells"] for e in environment["previous"]] == [4]


def test_report_command_rebuilds_tables(copy):
    before = {name: (copy / name).read_bytes() for name in TABLES}
    for name in (*TABLES, "report.html"):
        (copy / name).unlink()
    assert remake(copy).report == copy / "report.html"
    assert {name: (copy / name).read_bytes() for name in TABLES} == before


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))


def edit(old: str, new: str):
    def change(path: Path) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("values.safetensors", truncate, "its checksum differs"),
        ("values.safetensors", flip, "its checksum differs"),
        ("values.safetensors", Path.unlink, "values.safetensors is missing"),
        ("cell.json", lambda p: p.write_bytes(p.read_bytes()[:-20]), "is no JSON any more"),
        ("cell.json", lambda p: p.write_text("[]"), "no record of a cell"),
        ("cell.json", edit('"learner": "mean"', '"learner": "best"'), "its checksum differs"),
        ("cell.json", edit('"num_throws": 2000', '"num_throws": 2001'), "the configuration of another cell"),
        ("cell.json", edit('"num_throws": 2000', '"num_throws": NaN'), "not finite"),
        ("cell.json", edit('"schema_version": 2', '"schema_version": 999'), "schema version 999"),
    ],
)
def test_damaged_cells_are_named(finished, copy, name, damage, message):
    cell = finished[1].cells[2].id
    damage(copy / "cells" / cell / name)
    before = snapshot(copy)
    for action in (lambda: run(copy, "num_throws=2000"), lambda: remake(copy), lambda: load_results(copy)):
        with pytest.raises(InputError, match=message) as caught:
            action()
        assert f"delete {copy / 'cells' / cell} to recompute it" in str(caught.value)
    after = snapshot(copy)
    assert {k: v for k, v in before.items() if k != "lock"} == {k: v for k, v in after.items() if k != "lock"}


@pytest.mark.parametrize(
    ("content", "message"), [("{", "is no JSON"), ("{}", "describes no run"), ("[1]", "describes no run")]
)
def test_damaged_config(copy, content, message):
    (copy / "config.json").write_text(content)
    for action in (lambda: run(copy, "num_throws=2000"), lambda: load_results(copy)):
        with pytest.raises(InputError, match=message):
            action()


def test_folder_of_another_run(copy):
    before = snapshot(copy)
    with pytest.raises(InputError) as caught:
        run(copy, "num_throws=2000", "seed=0..4")
    assert "holds another run (seed is [0, 1] there and [0, 1, 2, 3, 4] here); choose another --out" in str(
        caught.value
    )
    with pytest.raises(InputError, match="num_throws is 2000 there and 16 here"):
        run(copy)
    assert snapshot(copy) == before


def test_folder_of_something_else(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match=r"files that are no run \(thesis.tex\); choose another --out"):
        run(tmp_path)
    assert snapshot(tmp_path) == {"thesis.tex": b"precious"}
    with pytest.raises(InputError, match="is a file; choose a folder"):
        run(tmp_path / "thesis.tex")
    with pytest.raises(InputError, match=r"has no config\.json"):
        remake(tmp_path)
    with pytest.raises(InputError, match="no folder"):
        load_results(tmp_path / "nowhere")


def test_folder_in_use(copy):
    before = snapshot(copy)
    with locked(copy):
        for action in (lambda: run(copy, "num_throws=2000"), lambda: remake(copy)):
            with pytest.raises(InputError, match=r"another process \(pid \d+ on .+\) is writing to .+ choose another"):
                action()
    assert run(copy, "num_throws=2000").num_finished == 4
    assert snapshot(copy)["results.csv"] == before["results.csv"]


def test_failing_cells_keep_the_others(tmp_path):
    marker = tmp_path / "failed once"
    arguments = ("trouble.how=raise", "trouble.seed=1", f"trouble.once={marker}", "seed=0..2", "coin.bias=0.5")
    outcome = run(tmp_path / "run", *arguments)
    (cell,) = outcome.failed
    assert outcome.failed[cell] == "ArithmeticError: the coin rolled away"
    assert (outcome.num_finished, outcome.num_cells) == (2, 3)
    error = (tmp_path / "run" / "cells" / cell / "error.txt").read_text()
    assert "Traceback" in error
    assert "in _cause" in error
    assert set(pd.read_csv(tmp_path / "run" / "results.csv")["seed"]) == {0, 2}
    # The same command retries it.
    assert run(tmp_path / "run", *arguments).num_finished == 3
    assert not (tmp_path / "run" / "cells" / cell / "error.txt").exists()
    assert set(pd.read_csv(tmp_path / "run" / "results.csv")["seed"]) == {0, 1, 2}


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("nan", "squared_error of mean at num_examples=4 is not finite in 1 of 16 samples"),
        ("twice", "squared_error of mean at num_examples=4 is measured twice"),
    ],
)
def test_measurements_that_cannot_be_stored(tmp_path, how, reason):
    outcome = run(tmp_path, f"trouble.how={how}", "seed=0", "coin.bias=0.5")
    assert [reason in text for text in outcome.failed.values()] == [True]
    assert outcome.num_finished == 0
    assert outcome.report is None
    assert not (tmp_path / "results.csv").exists()


def test_bad_execution_options(tmp_path):
    resolved = resolve(COIN)
    for message, attempt in (
        ("expected one of 'inline', 'local', or module:Class", partial(run_experiment, engine="ray")),
        ("use the engine local", partial(run_experiment, engine="inline", workers=2)),
        ("workers is 0", partial(run_experiment, workers=0)),
        ("threads is 0", partial(run_experiment, threads=0)),
    ):
        with pytest.raises(InputError, match=message):
            attempt(resolved, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_swept_lists_and_clashing_names(tmp_path):
    run(tmp_path, "num_examples=[2],[2,3]", "seed=0", "coin.bias=0.5", "trouble.seed=5,6")
    table = pd.read_csv(tmp_path / "results.csv")
    # `num_examples` and `seed` are columns already, so the swept keys carry their whole names.
    assert set(table["config.num_examples"]) == {"[2]", "[2, 3]"}
    assert set(table["trouble.seed"]) == {5, 6}
    assert set(table["seed"]) == {0}


def test_forecast_and_continuation_are_announced(tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    resolved = resolve(COIN, ["seconds=300", "coin.bias=0.5"])
    stream = io.StringIO()
    run_experiment(resolved, tmp_path, engine="inline", stream=stream)
    assert "2 cells on 1 worker: about 10 min\n" in stream.getvalue()
    (tmp_path / "cells" / resolved.cells[0].id / "cell.json").unlink()
    stream = io.StringIO()
    run_experiment(resolved, tmp_path, engine="inline", stream=stream)
    assert stream.getvalue().splitlines() == [
        "continuing: 1 of 2 cells are finished",
        "1 cell on 1 worker: about 5 min",
    ]


def test_cells_of_another_run_are_taken_over(finished, tmp_path, capsys):
    folder, resolved, _ = finished
    wider = resolve(COIN, ["num_throws=2000", "seed=0..2"])
    shared = {c.id for c in wider.cells} & {c.id for c in resolved.cells}
    assert 0 < len(shared) < len(wider.cells)
    run_experiment(wider, tmp_path / "wider", engine="inline", reuse=[folder])
    assert f"{len(shared)} of {len(wider.cells)} cells taken from other runs" in capsys.readouterr().err
    for cell in shared:
        assert snapshot(tmp_path / "wider" / "cells" / cell) == snapshot(folder / "cells" / cell)
    run_experiment(wider, tmp_path / "anew", engine="inline", quiet=True)
    tables = [(tmp_path / name / "results.csv").read_bytes() for name in ("wider", "anew")]
    assert tables[0] == tables[1]


def test_cells_of_other_threads_or_other_code_are_not_taken_over(finished, copy, tmp_path, capsys, monkeypatch):
    _, resolved, _ = finished
    run_experiment(resolved, tmp_path / "two", engine="inline", threads=2, reuse=[copy])
    assert "0 of 4 cells taken" in capsys.readouterr().err
    monkeypatch.setattr("iclab.code_version.code_version", lambda *modules: "0123456789abcdef")
    run_experiment(resolved, tmp_path / "changed", engine="inline", reuse=[copy])
    assert "0 of 4 cells taken" in capsys.readouterr().err


def test_what_is_no_run_or_was_damaged_is_not_taken_over(finished, copy, tmp_path):
    _, resolved, _ = finished
    with pytest.raises(InputError, match="expected the folder of a run"):
        run_experiment(resolved, tmp_path / "new", reuse=[tmp_path / "nothing"], quiet=True)
    assert not (tmp_path / "new").exists()
    values = copy / "cells" / resolved.cells[0].id / "values.safetensors"
    values.write_bytes(values.read_bytes()[:-1])
    with pytest.raises(InputError, match="was changed or cut"):
        run_experiment(resolved, tmp_path / "new", reuse=[copy], quiet=True)
