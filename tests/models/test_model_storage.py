"""Saved models come back bit for bit, and damage is named."""

import json
from pathlib import Path

import pytest
import torch

from iclab.errors import InputError
from iclab.models import GPT2, Mamba, OneLayerMamba, load_model, save_model
from iclab.models.storage import _checksum
from iclab.pretraining import two_stage
from iclab.prompts import SingleIndex, Stream


@pytest.fixture(scope="module")
def fitted() -> tuple[OneLayerMamba, SingleIndex]:
    prompts = SingleIndex(5, 2, "tanh", 0.1)
    model = OneLayerMamba(5, 32, gate="no_decay", rho=0.7, b=-2.0, clip=3.0, dtype=torch.float64)
    two_stage(model, prompts, stream=Stream(0), num_examples=16, stage1_tasks=64, stage2_tasks=64)
    return model, prompts


def test_round_trip_predicts_the_same_bits(fitted: tuple[OneLayerMamba, SingleIndex], tmp_path: Path) -> None:
    model, prompts = fitted
    loaded = load_model(save_model(model, tmp_path / "model"))
    batch = prompts.sample(Stream(1), 8, 20, 3, dtype=torch.float64)
    assert torch.equal(model.predict(batch), loaded.predict(batch))
    assert loaded.name == model.name
    assert loaded.settings() == model.settings()


@pytest.mark.parametrize("embedding", ["hermite2", "identity"])
def test_default_bias_is_saved_as_a_number(embedding: str, tmp_path: Path) -> None:
    model = OneLayerMamba(7, 4, embedding=embedding)
    assert load_model(save_model(model, tmp_path)).bias == model.bias


@pytest.mark.parametrize(
    "model",
    [
        Mamba(8, 2, channels=11, bias=True, conv_bias=False, activation="gelu", mixer_norm_eps=1e-3),
        Mamba(8, 1, residual_in_fp32=True).to(torch.bfloat16),
        GPT2(8, 2, heads=2, inner_width=5, activation="relu2", scale_attention=False, scale_attention_by_layer=True),
    ],
)
def test_options_of_backbones_come_back(model: Mamba | GPT2, tmp_path: Path) -> None:
    loaded = load_model(save_model(model, tmp_path))
    x = torch.randn(2, 5, 8).to(next(model.parameters()).dtype)
    assert torch.equal(loaded(x), model(x))
    assert loaded.settings() == model.settings()


def test_saving_again_replaces(fitted: tuple[OneLayerMamba, SingleIndex], tmp_path: Path) -> None:
    save_model(OneLayerMamba(3, 4), tmp_path)
    assert load_model(save_model(fitted[0], tmp_path)).ambient_dim == 5
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.json", "model.safetensors"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-8]),
            "truncated or changed",
        ),
        (lambda f: (f / "model.json").write_text("{"), "damaged"),
        (lambda f: (f / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda f: (f / "model.json").unlink(), "model.json is missing"),
        (lambda f: _edit(f, "format", 99), "format 99"),
        (lambda f: _edit(f, "model", "Other"), "does not describe"),
        (lambda f: _edit(f, "settings", {"ambient_dim": 6, "width": 32}), "truncated or changed"),
        (lambda f: _edit_setting(f, "rho", 0.8), "truncated or changed"),
        (lambda f: _edit_setting(f, "b", -2.5), "truncated or changed"),
        (lambda f: _edit_setting(f, "clip", None), "truncated or changed"),
        (lambda f: _edit_setting(f, "gate", "mamba"), "truncated or changed"),
        (lambda f: _edit(f, "dtype", "float32"), "truncated or changed"),
        (lambda f: _edit(f, "checksum", None), "truncated or changed"),
        (lambda f: _edit(f, "dtype", "nonsense", signed=True), "does not fit"),
        (lambda f: _edit(f, "settings", {"ambient_dim": 6, "width": 32}, signed=True), "does not fit"),
    ],
)
def test_damage_is_named(fitted: tuple[OneLayerMamba, SingleIndex], tmp_path: Path, damage, message: str) -> None:
    save_model(fitted[0], tmp_path)
    damage(tmp_path)
    with pytest.raises(InputError, match=message) as error:
        load_model(tmp_path)
    assert "\n" not in str(error.value)


def test_a_path_that_is_no_folder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_text("mine")
    for call in (lambda: load_model(file), lambda: save_model(OneLayerMamba(3, 4), file)):
        with pytest.raises(InputError, match=r"not a directory|file exists") as error:
            call()
        assert "\n" not in str(error.value)
    assert file.read_text() == "mine"
    with pytest.raises(InputError, match="not a directory"):
        save_model(OneLayerMamba(3, 4), file / "inner")
    (tmp_path / "folder" / "model.json").mkdir(parents=True)
    with pytest.raises(InputError, match="is a directory"):
        load_model(tmp_path / "folder")


def test_the_order_and_spacing_of_the_description_do_not_matter(fitted: tuple[OneLayerMamba, SingleIndex], tmp_path):
    path = save_model(fitted[0], tmp_path) / "model.json"
    path.write_text(json.dumps(dict(reversed(json.loads(path.read_text()).items()))))
    assert load_model(tmp_path).settings() == fitted[0].settings()


def _edit(folder: Path, key: str, value: object, signed: bool = False) -> None:
    path = folder / "model.json"
    description = {**json.loads(path.read_text()), key: value}
    if signed:
        description["checksum"] = _checksum(description, (folder / "model.safetensors").read_bytes())
    path.write_text(json.dumps(description))


def _edit_setting(folder: Path, key: str, value: object) -> None:
    _edit(folder, "settings", {**json.loads((folder / "model.json").read_text())["settings"], key: value})
