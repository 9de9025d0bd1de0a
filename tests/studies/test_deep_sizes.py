"""Parameter and state counts of deep models in reports, against counts by hand and against a real cache."""

from __future__ import annotations

import pytest

from iclab.experiments.sections.deep import DeepLearner
from iclab.prompts import Stream
from iclab.results.grid_points import GridPoint
from iclab.studies.error.sizes import sizes


def section(kind: str, **backbone: object) -> dict:
    return {"kind": "deep", "label": kind, "backbone": {"kind": kind, "width": 8, "depth": 2, **backbone}}


def point(title: str = "", **learners: dict) -> GridPoint:
    dumped = {name: DeepLearner.model_validate(one).model_dump(mode="json") for name, one in learners.items()}
    config = {"prompts": {"ambient_dim": 4}, "num_examples": [0, 5], "learners": dumped}
    return GridPoint(title, {}, None, config)  # type: ignore[arg-type]


def test_a_model_is_counted_by_hand():
    (table,) = sizes([point("d = 4", one=section("mamba", state_size=3), two=section("gpt2", heads=2))])
    # Read-in 4 x 8 + 8, read-out 8 + 1, last norm 8. A layer of Mamba, with 16 channels and rank 1: norm 8, in 8 x 32,
    # convolution 16 x 4 + 16, x_proj 16 x (1 + 2 x 3), dt 16 + 16, A 16 x 3, D 16, out 16 x 8.
    mamba = 40 + 9 + 8 + 2 * (8 + 256 + 80 + 112 + 32 + 48 + 16 + 128)
    # A block of GPT-2: two norms of 16, attention 8 x 24 + 24 and 8 x 8 + 8, network 8 x 32 + 32 and 32 x 8 + 8.
    # Positions for 32 examples, the training length, and a query; the last norm has a bias.
    gpt2 = 40 + 9 + 16 + 65 * 8 + 2 * (32 + 216 + 72 + 288 + 264)
    assert table.rows == [
        # Two layers: three inputs of the convolution and three numbers of state for each of 16 channels.
        ["d = 4", "mamba", f"{mamba:,}", f"{2 * (3 * 16 + 16 * 3)}"],
        # Two layers, two tokens an example, a key and a value of 8 for each.
        ["d = 4", "gpt2", f"{gpt2:,}", f"{2 * 2 * 2 * 8} n"],
    ]


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("kind", ["mamba", "gpt2", "linear_attention"])
def test_the_rule_for_the_state_holds_at_every_length(kind, layout):
    heads = {"heads": 2} if kind == "gpt2" else {}
    one = {**section(kind, **heads), "layout": layout}
    (table,) = sizes([point(one=one)])
    told = str(table.rows[0][3])
    model = DeepLearner.model_validate(one).build(4, [0, 5], Stream(7))
    for n in (0, 1, 5):
        counted = sum(
            int(t.removesuffix(" n").replace(",", "")) * (n if t.endswith("n") else 1) for t in told.split(" + ")
        )
        assert model.state_size(n) == counted
    assert table.rows[0][2] == f"{model.num_parameters():,}"


def test_no_deep_model_no_table():
    config = {"prompts": {"ambient_dim": 4}, "num_examples": [4], "learners": {"zero": {"kind": "zero", "label": ""}}}
    assert sizes([GridPoint("", {}, None, config)]) == []  # type: ignore[arg-type]
