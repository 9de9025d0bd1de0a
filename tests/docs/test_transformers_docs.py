"""The table of settings in docs/models.md says what the conversion does with each of them, and leaves none out."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from iclab.errors import InputError
from iclab.models import from_transformers
from transformers_support import gpt2_module, mamba_module

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
ROW = re.compile(r"^\| (`[^|]+`) \| ([^|]+) \| (converted|no effect|refused)\b[^|]*\|$", re.MULTILINE)
FAMILIES = ("Mamba", "FalconMamba", "GPT-2")
START: dict[str, dict[str, Any]] = {
    "Mamba": {"hidden_size": 12, "num_hidden_layers": 1, "vocab_size": 3},
    "FalconMamba": {"hidden_size": 12, "num_hidden_layers": 1, "vocab_size": 3, "mixer_rms_eps": 1e-6},
    "GPT-2": {"n_embd": 12, "n_layer": 1, "n_head": 2, "vocab_size": 3, "bos_token_id": 0, "eos_token_id": 0},
}
CHANGED: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "state_size": 3,
    "conv_kernel": 2,
    "time_step_rank": 4,
    "layer_norm_epsilon": 1e-3,
    "expand": 3,
    "intermediate_size": 17,
    "use_bias": True,
    "use_conv_bias": False,
    "residual_in_fp32": False,
    "hidden_act": "gelu",
    "mixer_rms_eps": 1e-3,
    "time_step_min": 0.01,
    "time_step_max": 0.2,
    "time_step_floor": 1e-3,
    "time_step_scale": 2.0,
    "time_step_init_scheme": "constant",
    "rescale_prenorm_residual": True,
    "use_mambapy": True,
    "use_associative_scan": False,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 3,
    "n_positions": 9,
    "n_inner": 5,
    "activation_function": "relu",
    "scale_attn_weights": False,
    "scale_attn_by_inverse_layer_idx": True,
    "reorder_and_upcast_attn": True,
    "resid_pdrop": 0.2,
    "embd_pdrop": 0.2,
    "attn_pdrop": 0.2,
    "add_cross_attention": True,
    "summary_type": "last",
    "summary_use_proj": False,
    "summary_activation": "tanh",
    "summary_proj_to_labels": False,
    "summary_first_dropout": 0.2,
    "vocab_size": 5,
    "pad_token_id": 1,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "tie_word_embeddings": False,
    "initializer_range": 0.3,
    "use_cache": False,
}


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@cache
def _table() -> dict[tuple[str, str], str]:
    """What the page says of each setting of each family."""
    table: dict[tuple[str, str], str] = {}
    for names, families, conversion in ROW.findall(PAGE.read_text(encoding="utf-8")):
        for name in re.findall(r"`(\w+)`", names):
            for family in FAMILIES if families == "all" else families.split(", "):
                assert (family, name) not in table
                table[family, name] = conversion
    return table


def test_the_table_has_every_setting() -> None:
    transformers = pytest.importorskip("transformers")
    classes = {
        "Mamba": transformers.MambaConfig,
        "FalconMamba": transformers.FalconMambaConfig,
        "GPT-2": transformers.GPT2Config,
    }
    settings = {(family, name) for family, kind in classes.items() for name in vars(kind)["__annotations__"]}
    # What a configuration has beside its annotations, and what they all inherit.
    settings |= {("Mamba", "intermediate_size"), ("FalconMamba", "intermediate_size")}
    assert settings - {(family, "model_type") for family in classes} == set(_table())


@pytest.mark.parametrize("family", FAMILIES)
def test_each_setting_does_what_the_table_says(family: str) -> None:
    build = gpt2_module if family == "GPT-2" else mamba_module
    plain = from_transformers(build(START[family])).settings()
    for name in [name for other, name in _table() if other == family]:
        changed = build({**START[family], name: CHANGED[name]})
        if _table()[family, name] == "refused":
            with pytest.raises(InputError, match=name):
                from_transformers(changed)
        else:
            differs = from_transformers(changed).settings() != plain
            assert differs == (_table()[family, name] == "converted"), name
