"""Checkpoint files: what is in them, and one line for whatever cannot be gone on from."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from iclab.errors import InputError
from iclab.lock import LOCK, locked
from iclab.pretraining import Curriculum, Ramp, load_checkpoint
from iclab.pretraining.trainer.checkpoint import Checkpoint
from iclab.prompts import Stream
from train_support import CURRICULUM, EVERYTHING, Correlation, build, distribution, run, weights

FASTER = Curriculum(**{**dict(CURRICULUM.ramps), "num_examples": Ramp(2, 6, 2, 4)})
LAST = "step-000000024.safetensors"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    run(folder=folder, **EVERYTHING)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    for path in trained.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the lock, which says who looked last."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != LOCK}


def refused(folder: Path, *parts: str, model: torch.nn.Module | None = None, **changes) -> None:
    before = contents(folder)
    model = model or build(1)
    initial = weights(model)
    with pytest.raises(InputError) as caught:
        run(model, folder=folder, **{**EVERYTHING, **changes})
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message
    assert torch.equal(weights(model), initial)
    assert contents(folder) == before


def test_a_checkpoint_holds_weights_optimiser_and_averages_as_tensors(trained):
    tensors = load_file(trained / LAST)
    names = [f"{part}/read.{kind}" for part in ("model", "average") for kind in ("weight", "bias")]
    names += [
        f"optimiser/{key}/read.{kind}" for key in ("step", "exp_avg", "exp_avg_sq") for kind in ("weight", "bias")
    ]
    assert sorted(tensors) == sorted([*names, "sample/inputs", "sample/labels", "pending"])
    assert float(tensors["optimiser/step/read.weight"]) == 24
    with safe_open(trained / LAST, "pt") as file:
        metadata = file.metadata()
    description = json.loads(metadata["iclab"])
    assert list(metadata) == ["iclab"]
    assert description["step"] == 24
    assert description["format"] == 1
    assert description["model"] == {"class": "Correlation", "settings": build().settings()}
    assert description["settings"]["curriculum"] == CURRICULUM.asdict()
    assert description["settings"]["stream"] == {"seed": 3, "path": []}
    best = load_file(trained / "best.safetensors")
    assert sorted(best) == sorted(names[:4])


def test_equal_trainings_write_equal_tensors(trained, tmp_path):
    run(folder=tmp_path, **EVERYTHING)
    first, second = load_file(trained / LAST), load_file(tmp_path / LAST)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_truncated(folder, share: float):
    data = (folder / LAST).read_bytes()
    (folder / LAST).write_bytes(data[: int(share * len(data))])
    refused(folder, LAST, "is truncated or no checkpoint of iclab; delete it")


def test_any_changed_byte_is_noticed():
    checkpoint = Checkpoint({"model/weight": torch.arange(6.0), "optimiser/step/x": torch.tensor(3.0)}, {"step": 5})
    data = checkpoint.to_bytes()
    assert data == checkpoint.to_bytes()
    again = Checkpoint.from_bytes(data, "it")
    assert torch.equal(again.part("model")["weight"], torch.arange(6.0))
    assert again.description["step"] == 5
    unnoticed = []
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        try:
            other = Checkpoint.from_bytes(bytes(changed), "it")
        except InputError:
            continue
        unnoticed.append((other.tensors, other.description))
    # Blanks that pad the header may change; nothing that is read may.
    for tensors, description in unnoticed:
        assert description == again.description
        assert all(torch.equal(tensors[name], again.tensors[name]) for name in again.tensors)


def test_edited(folder):
    tensors = load_file(folder / LAST)
    with safe_open(folder / LAST, "pt") as file:
        metadata = file.metadata()
    tensors["model/read.bias"] += 1e-3
    save_file(tensors, folder / LAST, metadata)
    refused(folder, LAST, "was changed after it was written; delete it")


def test_a_damaged_newest_one_may_be_deleted(folder, trained):
    (folder / LAST).unlink()
    model, record = run(build(1), folder=folder, **EVERYTHING)
    assert record.resumed_from == 21
    other = build()
    load_checkpoint(other, trained)
    assert torch.equal(weights(model), weights(other))


def test_a_future_format(folder):
    tensors = load_file(folder / LAST)
    with safe_open(folder / LAST, "pt") as file:
        description = json.loads(file.metadata()["iclab"])
    save_file(tensors, folder / LAST, {"iclab": json.dumps(description | {"format": 2, "iclab": "9.9"})})
    refused(folder, "has the format 2 and this version reads 1; use iclab 9.9, which wrote it")


def test_a_file_of_something_else(folder):
    save_file({"weight": torch.zeros(3)}, folder / LAST)
    refused(folder, "is truncated or no checkpoint of iclab")
    save_file({"weight": torch.zeros(3)}, folder / LAST, {"iclab": "[1]"})
    refused(folder, "is truncated or no checkpoint of iclab")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.5}, "learning_rate is 0.02 there and 0.5 here"),
        ({"steps": 48}, "steps is 24 there and 48 here"),
        ({"stream": Stream(4)}, "stream.seed is 3 there and 4 here"),
        ({"average": None}, "average is 0.9 there and None here"),
        ({"curriculum": FASTER}, "curriculum.num_examples is [2, 6, 2, 5] there and [2, 6, 2, 4] here"),
        (
            {"loss_on": "queries", "optimiser": "adam"},
            "loss_on is prefixes there and queries here, optimiser is adamw there",
        ),
        ({"prompts": distribution(support=(0, 1, 2))}, "prompts.support is [0, 1, 3] there and [0, 1, 2] here"),
        ({"prompts": distribution(link="he2")}, "prompts.link.name is he1 there and he2 here"),
        ({"prompts": distribution(inputs="uniform")}, "prompts.inputs.kind is gaussian there and uniform here"),
    ],
)
def test_other_settings(folder, change, message: str):
    refused(folder, "is of another training", message, "; choose another folder", **change)


def test_another_model(folder):
    refused(folder, "is of another model: settings.dropout is 0.0 there and 0.5 here", model=build(dropout=0.5))

    class Renamed(Correlation):
        pass

    refused(folder, "is of another model: class is Correlation there and Renamed here", model=Renamed())
    wide = build()
    wide.read = torch.nn.Linear(4, 4, bias=False)
    refused(folder, "read.bias is of shape (4,) and float32 there and absent here", model=wide)
    with pytest.raises(InputError, match=r"another model: settings\.input_dim is 4 there and 5 here"):
        load_checkpoint(build(input_dim=5), folder)


def test_settings_that_cannot_be_written_down(tmp_path):
    class Odd(Correlation):
        def settings(self):
            return {"read": self.read}

    with pytest.raises(InputError, match=r"settings\(\) of Odd cannot be written down"):
        run(Odd(), folder=tmp_path)


def test_lost_metrics(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:3]))
    refused(folder, "has 3 lines and the checkpoint was written after 13")
    (folder / "metrics.jsonl").write_text("".join([*lines[:2], "{oops\n", *lines[3:]]))
    refused(folder, "line 3 of", "is no JSON object")
    (folder / "metrics.jsonl").unlink()
    refused(folder, "has 0 lines")


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="cannot be used as a folder"):
            run(folder=place)
    with pytest.raises(InputError, match="holds no checkpoint"):
        load_checkpoint(build(), tmp_path)
    with pytest.raises(InputError, match="cannot be read: no such file"):
        load_checkpoint(build(), tmp_path / "missing.safetensors")
    with pytest.raises(InputError, match=r"best.safetensors cannot be read"):
        load_checkpoint(build(), tmp_path, which="best")
    with pytest.raises(InputError, match="which is 'first'; expected last or best"):
        load_checkpoint(build(), tmp_path, which="first")


def test_two_trainings_in_one_folder(folder):
    with locked(folder):
        refused(folder, "another process (pid", "choose another folder")
    run(folder=folder, **EVERYTHING)
