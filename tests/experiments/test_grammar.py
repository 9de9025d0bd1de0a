"""Axes that pair keys, their labels, and files that extend others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.errors import InputError
from iclab.experiments.definitions import load_definition
from iclab.experiments.resolve import Resolved, resolve
from iclab.runs.consistency import contradiction
from iclab.runs.results import load_results
from iclab.runs.run import run_experiment

COIN = str(Path(__file__).parents[1] / "kinds" / "coin.yaml")
HEAD = "title: t\nquestion: q\nkind: coin:KIND\n"


def write(folder: Path, text: str, name: str = "mine") -> str:
    """A YAML file beside a link to the coin kind."""
    if not (folder / "coin.py").exists():
        (folder / "coin.py").symlink_to(Path(COIN).with_name("coin.py"))
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return str(path)


def configs(resolved: Resolved) -> list[dict]:
    """The configurations of the cells."""
    return [cell.to_json() for cell in resolved.cells]


SIZE = "size={label: small, coin.bias: 0.1, num_throws: 4},{label: large, coin.bias: 0.9, num_throws: 64}"


def test_a_paired_axis_sets_its_keys_together(tmp_path: Path) -> None:
    resolved = resolve(COIN, ["seed=0,1", SIZE])
    pairs = [(c["seed"], c["coin"]["bias"], c["num_throws"]) for c in configs(resolved)]
    assert pairs == [(0, 0.1, 4), (0, 0.9, 64), (1, 0.1, 4), (1, 0.9, 64)]
    assert resolved.grid == {"seed": [0, 1], "coin.bias": [0.1, 0.9], "num_throws": [4, 64]}
    assert resolved.axes == {"size": ["coin.bias", "num_throws"]}
    assert [cell.labels for cell in resolved.cells] == [{"size": "small"}, {"size": "large"}] * 2
    assert contradiction(json.loads(json.dumps(resolved.to_json()))) == ""
    # Labels are words about a cell: neither its id nor the run's depends on them.
    plain = resolve(COIN, ["seed=0,1", SIZE.replace("label: small, ", "").replace("label: large, ", "")])
    assert [cell.id for cell in plain.cells] == [cell.id for cell in resolved.cells]
    assert (plain.run_id, plain.axes) == (resolved.run_id, {})


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50)), min_size=1, max_size=4, unique=True))
def test_a_paired_axis_is_its_values_written_out(pairs: list[tuple[int, int]]) -> None:
    axis = ",".join(f"{{label: l{i}, coin.bias: 0.{b}, num_throws: {n}}}" for i, (b, n) in enumerate([*pairs, (9, 99)]))
    cells = resolve(COIN, ["seed=3", f"size={axis}"]).cells
    written = [resolve(COIN, ["seed=3", f"coin.bias=0.{b}", f"num_throws={n}"]).cells[0] for b, n in [*pairs, (9, 99)]]
    assert [cell.id for cell in cells] == [cell.id for cell in written]


def test_labels_are_columns_and_name_the_panels(tmp_path: Path) -> None:
    run_experiment(resolve(COIN, ["seed=0,1", SIZE]), tmp_path / "run", engine="inline", quiet=True)
    results = load_results(tmp_path / "run")
    assert set(zip(results.summary["size"], results.summary["num_throws"], strict=True)) == {
        ("small", 4),
        ("large", 64),
    }
    assert set(results.select(size="small")["bias"]) == {0.1}
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "small" in page


def test_an_axis_of_a_file_pairs_too_and_can_be_replaced_or_deleted(tmp_path: Path) -> None:
    name = write(
        tmp_path,
        HEAD
        + """
x-small: &small {coin.bias: 0.1, num_throws: 4}
config: {num_throws: 7}
scales:
  laptop:
    grid:
      size: [{label: small, <<: *small}, {coin.bias: 0.9, num_throws: 64}]
""",
    )
    resolved = resolve(name)
    assert [cell.labels["size"] for cell in resolved.cells] == ["small", "coin.bias=0.9, num_throws=64"]
    assert [c["num_throws"] for c in configs(resolve(name, ["~size"]))] == [7]
    assert resolve(name, ["size={label: a, num_throws: 1},{label: b, num_throws: 2}"]).grid == {"num_throws": [1, 2]}
    (one,) = configs(resolve(name, ["coin.bias=0.3", "num_throws=3"]))
    assert (one["coin"]["bias"], one["num_throws"]) == (0.3, 3)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("size={label: a, coin.bias: 0.1},{label: a, coin.bias: 0.2}", "the axis 'size' has a label twice (a, a)"),
        ("size={label: a},{coin.bias: 0.2}", "not all its values are mappings of keys"),
        ("size={coin.bias: 0.1},3", "not all its values are mappings of keys"),
        ("size={label: [1], coin.bias: 0.1},{coin.bias: 0.2}", "a label of the axis 'size' is [1]"),
        ("size={label: true, coin.bias: 0.1},{coin.bias: 0.2}", "a label of the axis 'size' is True"),
        ("size={coin.bais: 0.1},{coin.bias: 0.2}", "unknown key 'coin.bais', did you mean 'coin.bias'?"),
        ("size={coin.bias: 0.1}", "unknown key 'size"),
        ("size=1,2", "unknown key 'size'"),
    ],
)
def test_paired_axes_that_make_no_sense(argument: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(COIN, ["seed=0", argument])
    assert message in str(caught.value)


BASE = (
    HEAD
    + """
config: {coin: {bias: 0.25}, num_throws: 16}
scales:
  laptop: {set: {num_throws: 8}, grid: {seed: 0..2, coin.bias: [0.1, 0.2]}}
  full: {grid: {seed: 0..9..3}}
"""
)


def test_a_file_extends_its_base(tmp_path: Path) -> None:
    base = write(tmp_path, BASE, "base")
    same = resolve(write(tmp_path, "base: base.yaml\n", "same"))
    assert [cell.id for cell in same.cells] == [cell.id for cell in resolve(base).cells]
    assert (same.definition.title, same.definition.scale_names) == ("t", ["laptop", "full"])
    own = write(
        tmp_path,
        "base: base.yaml\ntitle: mine\nconfig: {num_throws: 5}\nscales: {laptop: {grid: {seed: [7]}}, tiny: {}}\n",
    )
    resolved = resolve(own)
    # What the file says comes after all that its base says, in whatever part of it.
    assert resolved.definition.title == "mine"
    assert resolved.grid == {"seed": [7], "coin.bias": [0.1, 0.2]}
    assert [c["num_throws"] for c in configs(resolved)] == [5, 5]
    assert resolve(own, ["scale=full"]).grid == {"seed": [0, 3, 6, 9]}
    assert [(c["seed"], c["num_throws"]) for c in configs(resolve(own, ["scale=tiny"]))] == [(0, 5)]
    third = write(tmp_path, "base: mine.yaml\nscales: {laptop: {set: {coin.bias: 0.5}, grid: {seed: null}}}\n", "third")
    assert [(c["coin"]["bias"], c["num_throws"]) for c in configs(resolve(third))] == [(0.5, 5)]


def test_a_file_extends_the_catalogue(tmp_path: Path) -> None:
    name = write(tmp_path, "base: oh2025/error\nconfig: {learners: {joint: null}, prompts: {noise: 0.1}}\n")
    mine, theirs = resolve(name, ["scale=quick"], check=False), resolve("oh2025/error", ["scale=quick"], check=False)
    expected = theirs.cells[0].to_json()
    del expected["learners"]["joint"]
    expected["prompts"]["noise"] = 0.1
    assert mine.cells[0].to_json() == expected
    assert mine.definition.scale_names == theirs.definition.scale_names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: mine.yaml\n", "extends itself"),
        ("base: other.yaml\n", "extends itself"),
        ("base: [a]\n", "base is ['a']; expected the name"),
        ("base: oh2025/eror\n", "did you mean 'oh2025/error'?"),
        ("base: nowhere.yaml\n", "no file"),
        ("base: oh2025/error\nconfig: {lerners: {a: 1}}\n", "unknown key 'lerners.a', did you mean 'learners'?"),
        ("base: oh2025/error\ny-helper: 1\n", "y-helper"),
    ],
)
def test_bases_that_lead_nowhere(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, "base: mine.yaml\n", "other")
    with pytest.raises(InputError) as caught:
        resolve(write(tmp_path, text), check=False)
    assert message in str(caught.value)


def test_a_deep_chain_of_bases(tmp_path: Path) -> None:
    write(tmp_path, BASE, "f0")
    for i in range(1, 30):
        write(tmp_path, f"base: f{i - 1}.yaml\nconfig: {{num_throws: {i}}}\n", f"f{i}")
    assert len(load_definition(str(tmp_path / "f29.yaml")).chain) == 30
    assert configs(resolve(str(tmp_path / "f29.yaml")))[0]["num_throws"] == 29
