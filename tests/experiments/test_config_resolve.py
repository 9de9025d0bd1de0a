"""From a name and overrides to cells: merging, kinds of sections, identity, errors."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from iclab.config.identity import SCHEMA_VERSION, cell_id
from iclab.config.keys import dotted_names
from iclab.config.validation import validate
from iclab.errors import InputError
from iclab.experiments.definitions import catalogue_names, load_definition
from iclab.experiments.resolve import Cell, resolve
from iclab.runs.consistency import contradiction

COIN = str(Path(__file__).parents[1] / "kinds" / "coin.yaml")


def write(folder: Path, text: str) -> str:
    """A YAML file beside a link to the coin kind."""
    path = folder / "mine.yaml"
    path.write_text(text)
    kind = Path(COIN).with_name("coin.py")
    (folder / "coin.py").symlink_to(kind)
    (folder / "raising_kind.py").write_text("1 // 0")
    (folder / "exiting_kind.py").write_text("import sys; sys.exit(0)")
    return str(path)


def test_preset_grid_in_order():
    resolved = resolve(COIN)
    assert resolved.grid == {"seed": [0, 1], "coin.bias": [0.25, 0.5]}
    points = [(c.to_json()["seed"], c.to_json()["coin"]["bias"]) for c in resolved.cells]
    assert points == [(0, 0.25), (0, 0.5), (1, 0.25), (1, 0.5)]
    assert all(c.to_json()["num_throws"] == 16 for c in resolved.cells)
    assert resolved.folder_name == f"coin-laptop-{resolved.run_id}"


def test_scale_sets_and_sweeps():
    resolved = resolve(COIN, ["scale=full"])
    assert resolved.grid == {"seed": [0, 1, 2, 3, 4]}
    assert {c.to_json()["num_throws"] for c in resolved.cells} == {64}
    assert {c.to_json()["coin"]["bias"] for c in resolved.cells} == {0.25}


def test_overrides_replace_preset_axes():
    assert resolve(COIN, ["seed=7"]).grid == {"coin.bias": [0.25, 0.5]}
    assert resolve(COIN, ["seed=7", "coin.bias=0.1"]).grid == {}
    # The axis keeps its place in the product; a new one comes last.
    resolved = resolve(COIN, ["num_throws=8,9", "seed=3..5"])
    assert list(resolved.grid) == ["seed", "coin.bias", "num_throws"]
    assert resolved.grid["seed"] == [3, 4, 5]
    assert len(resolved.cells) == 12


def test_lists_and_sections_as_values():
    assert resolve(COIN, ["num_examples=[2,4,8]"]).cells[0].to_json()["num_examples"] == [2, 4, 8]
    assert resolve(COIN, ["num_examples=[2],[4]"]).grid["num_examples"] == [[2], [4]]
    assert resolve(COIN, ["coin.faces.1=3", "coin.faces=[0,2]"]).cells[0].to_json()["coin"]["faces"] == [0.0, 3.0]
    assert resolve(COIN, ["coin.faces.1=3"]).cells[0].to_json()["coin"]["faces"] == [0.0, 3.0]
    assert resolve(COIN, ["trouble={how: raise}"]).cells[0].to_json()["trouble"]["how"] == "raise"


def test_kind_replaces_its_section_and_other_keys_merge(tmp_path):
    path = write(
        tmp_path, "{title: T, question: Q, kind: 'coin:KIND', config: {estimator: {kind: mean, shrinkage: 0.5}}}"
    )
    assert resolve(path).cells[0].to_json()["estimator"] == {"kind": "mean", "shrinkage": 0.5}
    same = resolve(path, ["estimator.kind=clipped"]).cells[0].to_json()["estimator"]
    assert same == {"kind": "clipped", "bound": 1.5, "sides": "two"}
    # In whatever order they are given.
    for order in (["estimator.bound=3", "estimator.kind=clipped"], ["estimator.kind=clipped", "estimator.bound=3"]):
        assert resolve(path, order).cells[0].to_json()["estimator"]["bound"] == 3.0
    swept = resolve(path, ["estimator.kind=mean,clipped"])
    assert [c.to_json()["estimator"]["kind"] for c in swept.cells] == ["mean", "clipped"]
    with pytest.raises(InputError, match=r"unknown key 'estimator.shrinkage'"):
        resolve(path, ["estimator.kind=clipped", "estimator.shrinkage=0.1"])


PRESET = """
title: T
question: Q
kind: 'coin:KIND'
config: {coin: {bias: 0.25, limit: 9}, estimator: {kind: mean, shrinkage: 0.5}, others: {loaded: {bias: 0.9}}}
scales:
  laptop:
    set: {coin: {faces: [0, 2]}}
    grid: {seed: [0, 1], coin.bias: [0.25, 0.5]}
  mappings:
    grid: {coin: [{bias: 0.1}, {bias: 0.2, limit: 12}], estimator: [{shrinkage: 0.1}, {kind: clipped, bound: 3}]}
  replaced:
    set: {"coin:=": {faces: [0, 3]}, others: {loaded: null, "fair:=": {limit: 8}}}
  deleted:
    set: {others.loaded: null, coin.limit: null}
"""


def test_mappings_merge(tmp_path):
    """What a mapping does not name stays: the preset's limit, faces and axis."""
    path = write(tmp_path, PRESET)
    resolved = resolve(path, ["coin={limit: 8}"])
    assert resolved.grid == {"seed": [0, 1], "coin.bias": [0.25, 0.5]}
    assert resolved.cells[0].to_json()["coin"] == {"bias": 0.25, "faces": [0.0, 2.0], "limit": 8}
    # An axis goes where the mapping sets what it varies; the same as the dotted key.
    fixed = resolve(path, ["coin={bias: 0.3}"])
    assert fixed.grid == {"seed": [0, 1]}
    assert fixed.run_id == resolve(path, ["coin.bias=0.3"]).run_id
    new = resolve(path, ["others={unfair: {limit: 8}}", "seed=0"]).cells[0].to_json()["others"]
    assert {name: (coin["bias"], coin["limit"]) for name, coin in new.items()} == {
        "loaded": (0.9, None),
        "unfair": (0.5, 8),
    }


def test_a_kind_in_a_mapping_replaces_its_section(tmp_path):
    path = write(tmp_path, PRESET)
    cell = resolve(path, ["estimator={kind: clipped, bound: 2}"]).cells[0].to_json()
    assert cell["estimator"] == {"kind": "clipped", "bound": 2.0, "sides": "two"}
    assert resolve(path, ["estimator={sides: one}", "estimator.kind=clipped"]).cells[0].to_json()["estimator"] == {
        "kind": "clipped",
        "bound": 1.5,
        "sides": "one",
    }


def test_mappings_in_grids(tmp_path):
    path = write(tmp_path, PRESET)
    resolved = resolve(path, ["scale=mappings"])
    found = [
        (c["coin"]["bias"], c["coin"]["limit"], *c["estimator"].values()) for c in map(Cell.to_json, resolved.cells)
    ]
    assert found == [
        (0.1, 9, "mean", 0.1),
        (0.1, 9, "clipped", 3.0, "two"),
        (0.2, 12, "mean", 0.1),
        (0.2, 12, "clipped", 3.0, "two"),
    ]
    # The grid names what the mappings set; a kind without a key has none of it.
    assert resolved.grid == {
        "coin.bias": [0.1, 0.2],
        "coin.limit": [9, 12],
        "estimator.shrinkage": [0.1, None],
        "estimator.kind": ["mean", "clipped"],
        "estimator.bound": [None, 3.0],
    }
    assert contradiction(resolved.to_json()) == ""
    swept = resolve(path, ["coin={bias: 0.1},{bias: 0.2, limit: 12}", "seed=0"])
    assert [c.to_json()["coin"] for c in swept.cells] == [
        {"bias": 0.1, "faces": [0.0, 2.0], "limit": 9},
        {"bias": 0.2, "faces": [0.0, 2.0], "limit": 12},
    ]
    # A swept mapping takes the position of the preset's axis of the same key; a single one merges into each point.
    assert resolve(path, ["scale=mappings", "coin={bias: 0.3},{}"]).grid["coin.bias"] == [0.3, 0.25]
    assert resolve(path, ["scale=mappings", "coin={limit: 30}"]).grid["coin.bias"] == [0.1, 0.2]


def test_replacing_and_deleting(tmp_path):
    path = write(tmp_path, PRESET)
    cell = resolve(path, ["coin:={bias: 0.1}", "~others.loaded"]).cells[0].to_json()
    assert cell["coin"] == {"bias": 0.1, "faces": [0.0, 1.0], "limit": None}
    assert cell["others"] == {}
    cell = resolve(path, ["scale=replaced"]).cells[0].to_json()
    assert cell["coin"] == {"bias": 0.5, "faces": [0.0, 3.0], "limit": None}
    assert cell["others"] == {"fair": {"bias": 0.5, "faces": [0.0, 1.0], "limit": 8}}
    swept = resolve(path, ["coin:={bias: 0.1},{limit: 8}", "seed=0"])
    assert swept.grid == {"coin": [c.to_json()["coin"] for c in swept.cells]}
    # An entry of a mapping is deleted by null; where null is a value, it is the value.
    cell = resolve(path, ["scale=deleted"]).cells[0].to_json()
    assert (cell["others"], cell["coin"]["limit"]) == ({}, None)
    assert resolve(path, ["others={loaded: null}"]).run_id == resolve(path, ["~others.loaded"]).run_id
    # An entry of the kind's defaults, too.
    assert resolve(COIN, ["~others.fair"]).cells[0].to_json()["others"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["~others.loadet"], "there is no 'others.loadet' to delete, did you mean 'loaded'?"),
        (["~num_throws"], "'num_throws' cannot be deleted"),
        (["~coin"], "'coin' cannot be deleted"),
        (["~others.loaded=3"], "expected ~ and an entry alone"),
        (["~"], "expected ~ and an entry alone"),
        (["others={}"], "others={} changes nothing, since a mapping merges; write others:={} to empty it"),
        (["coin={bias: 0.1}", "coin.bias=0.2"], "'coin.bias' is set by 'coin' and by 'coin.bias'; give it once"),
        (["coin={bias: {x: 1}}"], "unknown key 'coin.bias.x'"),
        (["coin:={bais: 1}"], "unknown key 'coin.bais', did you mean 'coin.bias'?"),
        (["coin:=3"], "coin is 3; expected a section with keys"),
    ],
)
def test_changes_that_cannot_be_made(tmp_path, arguments, message):
    with pytest.raises(InputError) as caught:
        resolve(write(tmp_path, PRESET), arguments)
    assert message in str(caught.value)


def test_sections_by_name():
    """A new name is a new section; the others stay."""
    cell = resolve(COIN, ["others.loaded.bias=0.9", "others.fair.faces=[0,2]"]).cells[0].to_json()
    assert {name: (coin["bias"], coin["faces"]) for name, coin in cell["others"].items()} == {
        "fair": (0.5, [0.0, 2.0]),
        "loaded": (0.9, [0.0, 1.0]),
    }


def test_kinds_of_sections_by_name():
    """A section of a mapping is replaced by a new kind like any other."""
    arguments = ["estimators.first.kind=clipped", "estimators.second.kind=mean", "estimators.second.shrinkage=0.5"]
    cell = resolve(COIN, arguments).cells[0].to_json()
    assert cell["estimators"] == {
        "first": {"kind": "clipped", "bound": 1.5, "sides": "two"},
        "second": {"kind": "mean", "shrinkage": 0.5},
    }
    swept = resolve(COIN, ["seed=0", "coin.bias=0.5", "estimators.first.kind=mean,clipped"])
    assert [c.to_json()["estimators"]["first"]["kind"] for c in swept.cells] == ["mean", "clipped"]
    with pytest.raises(InputError, match=r"unknown key 'estimators.first.shrinkag', did you mean 'estimators.first.sh"):
        resolve(COIN, ["estimators.first.shrinkag=1"])


def test_the_mathematics_is_checked_when_asked_for():
    assert resolve(COIN, ["coin.limit=4"], check=False).cells[0].to_json()["coin"]["limit"] == 4


def test_keys_below_a_default_section():
    cell = resolve(COIN, ["estimator.shrinkage=0.5", "trouble.seed=4"]).cells[0].to_json()
    assert cell["estimator"] == {"kind": "mean", "shrinkage": 0.5}
    assert cell["trouble"] == {"how": "none", "seed": 4, "once": ""}


def test_identity_is_blake2b_of_the_science():
    cell = resolve(COIN).cells[0]
    text = json.dumps([SCHEMA_VERSION, "coin:KIND", cell.to_json()], sort_keys=True, separators=(",", ":"))
    assert cell.id == hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def test_spelling_does_not_change_ids():
    reference = resolve(COIN, ["coin.bias=1", "num_throws=32"])
    for bias, throws in (("1.0", "32"), ("1e0", "32.0"), ("1.", "0x20")):
        assert resolve(COIN, [f"coin.bias={bias}", f"num_throws={throws}"]).run_id == reference.run_id
    assert resolve(COIN, ["estimator.kind=mean"]).run_id == resolve(COIN).run_id
    assert resolve(COIN, ["seed=1,0"]).run_id == resolve(COIN).run_id
    assert resolve(COIN, ["num_throws=17"]).run_id != resolve(COIN).run_id
    # A preset written out is the preset.
    assert (
        resolve(COIN, ["scale=full", "seed=0..1", "coin.bias=0.25,0.5", "num_throws=16"]).run_id == resolve(COIN).run_id
    )


def test_config_json_round_trip():
    resolved = resolve(COIN, ["num_examples=[3]", "estimator.kind=clipped", "coin.bias=1e-4,0.3"])
    stored = json.loads(json.dumps(resolved.to_json()))
    for entry, cell in zip(stored["cells"], resolved.cells, strict=True):
        again = validate(resolved.kind.config, entry["config"])
        assert again == cell.config
        assert cell_id(stored["kind"], again.model_dump(mode="json")) == entry["id"] == cell.id
    assert stored["grid"]["coin.bias"] == [1e-4, 0.3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["coin.bais=0.5"], "unknown key 'coin.bais', did you mean 'coin.bias'?"),
        (["bias=0.5"], "unknown key 'bias', did you mean 'coin.bias'?"),
        (["coni.bias=0.5"], "unknown key 'coni.bias', did you mean 'coin.bias'?"),
        (["seed.x=1"], "unknown key 'seed.x', did you mean 'seed'?"),
        (["estimator.bound=2"], "unknown key 'estimator.bound'"),
        (["estimator={kind: clipped, boud: 2}"], "unknown key 'estimator.boud', did you mean 'estimator.bound'?"),
        (["seed=abc"], "seed is 'abc'; expected an integer"),
        (["seed=1.5"], "seed is 1.5; expected an integer"),
        (["seed=true"], "seed is True; expected a number"),
        (["num_throws='32'"], "num_throws is '32'; expected a number"),
        (["coin.bias='1e-400'"], "coin.bias is '1e-400'; expected a number"),
        (["num_examples=[1,true]"], "num_examples.1 is True; expected a number"),
        (["others.fair.bias=true"], "others.fair.bias is True; expected a number"),
        (["seed=0,x"], "seed is 'x'; expected an integer"),
        (["seed=-1"], "seed is -1; expected a value >= 0"),
        (["seed="], "'seed=' is a grid with no cell"),
        (["coin.bias=2"], "coin.bias is 2; expected a value <= 1"),
        (["coin.bias=.nan"], "coin.bias is nan; expected a finite number"),
        (["coin.limit=many"], "coin.limit is 'many'; expected an integer"),
        (["coin.faces=1"], "coin.faces is 1; expected a list such as [1,2]"),
        (["coin.faces=[1,x]"], "coin.faces.1 is 'x'; expected a number"),
        (["coin.faces.7=1"], "expected a position from 0"),
        (["num_throws.x=1"], "unknown key 'num_throws.x', did you mean 'num_throws'?"),
        (["trouble.seed.x=1"], "unknown key 'trouble.seed.x', did you mean 'trouble.seed'?"),
        (["others.fair.bais=1"], "unknown key 'others.fair.bais', did you mean 'others.fair.bias'?"),
        (["others.fair.bias=2"], "others.fair.bias is 2; expected a value <= 1"),
        (["coin=3"], "coin is 3; expected a section with keys"),
        (["estimator.kind=median"], "estimator.kind is 'median'; expected one of 'mean', 'clipped'"),
        (["estimator.kind=clipped", "estimator.sides=three"], "estimator.sides is 'three'; expected 'one' or 'two'"),
        (["seed=1,1"], "the grid has the cell seed=1, coin.bias=0.25 twice"),
        (["num_throws=32,32.0"], "twice"),
        (["seed=0..99", "num_throws=1..99", "coin.bias=0.1,0.2"], "the grid has 19800 cells; expected at most 10000"),
        (["scale=ful"], "coin has no scale 'ful', did you mean 'full'?"),
        (["coin.limit=4"], "num_examples goes to 8; expected at most 4"),
    ],
)
def test_bad_input_says_what_to_do(arguments, message):
    with pytest.raises(InputError) as caught:
        resolve(COIN, arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title: [", "cannot be read as YAML"),
        ("- 1", "holds no mapping"),
        ("42", "holds no mapping"),
        ("text", "holds no mapping"),
        ("", "title is missing"),
        ("{title: T, question: Q}", "kind is missing"),
        ("{title: T, question: Q, kind: 'coin:KIND', scale: {}}", "unknown key 'scale', did you mean 'scales'?"),
        (
            "{title: T, question: Q, kind: 'coin:KIND', scales: {laptop: {sets: {}}}}",
            "unknown key 'scales.laptop.sets'",
        ),
        ("{title: T, question: Q, kind: 'coin:KIND', scales: {laptop: {grid: {seed: []}}}}", "a grid with no cell"),
        (
            "{title: T, question: Q, kind: 'coin:KIND', scales: {laptop: {grid: {seed: 3}}}}",
            "scales.laptop.grid.seed is 3",
        ),
        ("{title: T, question: Q, kind: 'coin:KIND', config: {coin: {bais: 1}}}", "did you mean 'coin.bias'?"),
        ("{title: T, question: Q, kind: coin}", "unknown kind 'coin'"),
        ("{title: T, question: Q, kind: alignmnt}", "did you mean 'alignment'?"),
        ("{title: T, question: Q, kind: 'no_such_module:KIND'}", "cannot be imported"),
        ("{title: T, question: Q, kind: '.coin:KIND'}", "unknown kind '.coin:KIND'"),
        ("{title: T, question: Q, kind: 'coin..x:KIND'}", "unknown kind 'coin..x:KIND'"),
        ("{title: T, question: Q, kind: 'coin:'}", "unknown kind 'coin:'"),
        ("{title: T, question: Q, kind: 'raising_kind:KIND'}", "(ZeroDivisionError: integer"),
        ("{title: T, question: Q, kind: 'exiting_kind:KIND'}", "fix the module exiting_kind"),
        ("{title: T, question: Q, kind: 'coin:Kind'}", "coin has no 'Kind'"),
        ("{title: T, question: Q, kind: 'coin:KIND', config: {num_throws: '${x}'}}", "cannot be read as YAML"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        resolve(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("9" * 5000, "an integer of over 300 digits"),
        ("010", "an octal number"),
        ("1:30", "a number to the base 60"),
        ("1e-400", "too small for a floating-point number"),
        ("-0.0001e-330", "too small for a floating-point number"),
        ("1e400", "too large for a floating-point number"),
        ("0_e0", "for a number or not"),
        ("1_000", "for a number or not"),
        ("0b11", "for a number or not"),
        ("true", "expected a number"),
        ("yes", "expected a number"),
        ("'3'", "expected a number"),
        ("!!binary aGk=", "could not determine a constructor"),
        ("!!timestamp 2001-01-01", "could not determine a constructor"),
        ("!!int x", "is no integer"),
        ("[" * 60 + "]" * 60, "nested over 50 deep"),
        ("[" * 2000, "nest"),
        ("{bias: 1, bias: 2}", "the key 'bias' stands twice"),
        ("&a [*a]", "nested over 50 deep"),
        ("{[1]: 2}", "is no name"),
    ],
)
def test_values_that_readers_take_differently(tmp_path, value, message):
    """In a file, in a grid of it and on the command line alike."""
    config = f"config: {{coin: {{bias: {value}}}}}"
    grid = f"scales: {{laptop: {{grid: {{coin.bias: [{value}]}}}}}}"
    for number, part in enumerate((config, grid)):
        path = tmp_path / f"{number}.yaml"
        path.write_text(f"title: T\nquestion: Q\nkind: coin:KIND\n{part}\n")
        with pytest.raises(InputError) as caught:
            resolve(str(path))
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500
    if not value.startswith("["):
        with pytest.raises(InputError) as caught:
            resolve(COIN, [f"coin.bias={value}"])
        assert len(str(caught.value)) < 500


def test_references_in_a_file(tmp_path):
    text = "title: T\nquestion: Q\nkind: coin:KIND\nconfig:\n  coin: &c {bias: 0.25}\n"
    path = write(tmp_path, text + "  others: {same: *c, near: {<<: *c, limit: 9}, on: *c}\n")
    others = resolve(path).cells[0].to_json()["others"]
    assert {name: (coin["bias"], coin["limit"]) for name, coin in others.items()} == {
        "same": (0.25, None),
        "near": (0.25, 9),
        "on": (0.25, None),
    }
    levels = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 10))
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text(f"{text}  l0: &l0 [1]\n{levels}")
    with pytest.raises(InputError, match="over 1,000,000 values"):
        resolve(str(bomb))


def test_numbers_of_a_file(tmp_path):
    path = write(
        tmp_path,
        "{title: T, question: Q, kind: 'coin:KIND', config: {coin: {bias: 1e-4}},"
        " scales: {laptop: {grid: {seed: 2..4}}}}",
    )
    resolved = resolve(path)
    assert resolved.cells[0].to_json()["coin"]["bias"] == 1e-4
    assert resolved.grid == {"seed": [2, 3, 4]}


def test_missing_names():
    with pytest.raises(InputError, match="`iclab list` shows all"):
        load_definition("oh2025/nothing_of_the_kind")
    with pytest.raises(InputError, match="no file"):
        load_definition("nowhere/mine.yaml")


def test_dotted_names_follow_the_kind_in_use():
    model = resolve(COIN).kind.config
    names = dotted_names(model, {"estimator": {"kind": "clipped"}})
    assert "estimator.bound" in names
    assert "estimator.shrinkage" not in names
    assert "coin.bias" in names
    assert "coin" not in names


@pytest.mark.parametrize("name", catalogue_names())
def test_every_scale_of_the_catalogue_resolves(name):
    definition = load_definition(name)
    assert definition.question.endswith("?")
    for scale in definition.scales:
        resolved = resolve(name, [f"scale={scale}"])
        assert len(resolved.cells) >= 1
        assert resolved.seconds > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("42\n", "holds no mapping"),
        ("- a\n", "holds no mapping"),
        ("title: ${oc.env:HOME}\n", "no interpolations"),
        ("title: [\n", "cannot be read as YAML"),
    ],
)
def test_a_file_that_describes_no_experiment(tmp_path, text, words):
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        resolve(str(path), [])
