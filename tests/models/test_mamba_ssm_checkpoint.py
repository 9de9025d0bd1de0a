"""Checkpoints in the format of Mamba's authors: names, settings, and what cannot be loaded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from iclab.errors import InputError
from iclab.models import load_mamba_ssm
from transformers_support import InFloat64, mamba_module, outputs, scramble

CONFIG = {
    "d_model": 20,
    "n_layer": 2,
    "vocab_size": 13,
    "ssm_cfg": {},
    "rms_norm": True,
    "residual_in_fp32": True,
    "fused_add_norm": True,
    "pad_vocab_size_multiple": 8,
}
SETTINGS = {"vocab_size": 16, "hidden_size": 20, "num_hidden_layers": 2}


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def _model(**settings: Any) -> Any:
    torch.manual_seed(0)
    module = mamba_module({**SETTINGS, **settings}).double()
    scramble(module)
    return module


def _names(module: Any) -> dict[str, Tensor]:
    """The weights under the names that ``MambaLMHeadModel`` gives them."""
    weights = {f"backbone.{name}": value.detach().clone() for name, value in module.state_dict().items()}
    weights["backbone.embedding.weight"] = weights.pop("backbone.embeddings.weight")
    return {**weights, "lm_head.weight": weights["backbone.embedding.weight"].clone()}


def _write(folder: Path, config: dict[str, Any], weights: dict[str, Tensor]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("ssm", "settings"),
    [
        ({}, {}),
        ({"d_state": 3, "d_conv": 2, "expand": 3, "dt_rank": 5}, {}),
        ({"expand": 1.53}, {}),
        ({"conv_bias": False, "bias": True, "layer": "Mamba1", "dt_rank": "auto", "use_fast_path": False}, {}),
        ({}, {"residual_in_fp32": False, "d_intermediate": 0, "attn_layer_idx": [], "attn_cfg": {}, "ssm_cfg": None}),
    ],
)
def test_a_checkpoint_computes_what_transformers_does(ssm, settings: dict[str, Any], tmp_path: Path) -> None:
    theirs = _model(
        state_size=ssm.get("d_state", 16),
        conv_kernel=ssm.get("d_conv", 4),
        intermediate_size=int(ssm.get("expand", 2) * 20),
        time_step_rank=ssm.get("dt_rank", "auto"),
        use_conv_bias=ssm.get("conv_bias", True),
        use_bias=ssm.get("bias", False),
    )
    ours = load_mamba_ssm(_write(tmp_path, {**CONFIG, "ssm_cfg": ssm, **settings}, _names(theirs)))
    x = torch.randn(2, 9, 20, dtype=torch.float64)
    with torch.no_grad(), InFloat64():
        expected = outputs(theirs, x)
    torch.testing.assert_close(ours(x), expected, rtol=1e-10, atol=1e-11)
    assert ours.mixer.residual_in_fp32 == settings.get("residual_in_fp32", True)


def test_weights_in_several_files_and_dtypes(tmp_path: Path) -> None:
    weights = {name: value.to(torch.bfloat16) for name, value in _names(_model()).items()}
    weights["backbone.layers.1.mixer.A_log"] = weights["backbone.layers.1.mixer.A_log"].float()
    _write(tmp_path, CONFIG, {name: value for name, value in weights.items() if "layers.1" not in name})
    rest = {name: value for name, value in weights.items() if "layers.1" in name}
    save_file(rest, tmp_path / "model-00002-of-00002.safetensors")
    ours = load_mamba_ssm(tmp_path)
    assert ours.get_parameter("layers.1.mixer.A_log").dtype == torch.float32
    assert ours.get_parameter("layers.0.mixer.A_log").dtype == torch.bfloat16
    assert all(torch.equal(value, weights[f"backbone.{name}"]) for name, value in ours.state_dict().items())
    save_file(rest, tmp_path / "copy.safetensors")
    with pytest.raises(InputError, match="in two files"):
        load_mamba_ssm(tmp_path)


def test_a_pickle_is_not_opened_and_the_line_says_how_to_convert_it(tmp_path: Path) -> None:
    weights = _names(_model())
    weights["lm_head.weight"] = weights["backbone.embedding.weight"]  # tied, as in the published files
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    torch.save(weights, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="a pickle, which is not opened") as error:
        load_mamba_ssm(tmp_path)
    assert "\n" not in str(error.value)
    code = str(error.value).partition('python -c "')[2].rstrip('"')
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=120)
    ours = load_mamba_ssm(tmp_path)
    assert torch.equal(ours.norm_f.weight, weights["backbone.norm_f.weight"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rms_norm": False}, "rms_norm is False; only True"),
        ({"d_intermediate": 40}, "d_intermediate is 40; only 0"),
        ({"attn_layer_idx": [1]}, r"attn_layer_idx is \[1\]"),
        ({"ssm_cfg": {"layer": "Mamba2"}}, "ssm_cfg.layer is 'Mamba2'; only 'Mamba1'"),
        ({"ssm_cfg": {"headdim": 64}}, "ssm_cfg.headdim is no setting"),
        ({"ssm_cfg": 3}, "ssm_cfg is 3"),
        ({"ssm_cfg": {"expand": "two"}}, "ssm_cfg.expand is 'two'"),
        ({"ssm_cfg": {"expand": 4}}, "do not fit its configuration: layers.0.mixer.D has shape"),
        ({"ssm_cfg": {"d_state": 0}}, "state_size is 0"),
        ({"bidirectional": True}, "bidirectional is no setting"),
        ({"n_layer": 3}, "layers.2.norm.weight has shape absent"),
        ({"d_model": "wide"}, "d_model is 'wide'"),
        ({"hidden_size": 20}, "is of transformers"),
    ],
)
def test_what_cannot_be_loaded_is_named_in_a_line(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    _write(tmp_path, {**CONFIG, **change}, _names(_model()))
    with pytest.raises(InputError, match=message) as error:
        load_mamba_ssm(tmp_path)
    assert "\n" not in str(error.value)


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config.json cannot be read: no such file"):
        load_mamba_ssm(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        load_mamba_ssm(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="does not describe a Mamba"):
        load_mamba_ssm(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    with pytest.raises(InputError, match="holds no weights"):
        load_mamba_ssm(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(InputError, match=r"model.safetensors is damaged"):
        load_mamba_ssm(tmp_path)
