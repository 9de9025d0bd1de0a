"""In-context models: what may be seen when, in every layout and with every backbone; the learner's contract; files."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.evaluation import error_curve
from iclab.models import (
    GPT2,
    LAYOUTS,
    InContextModel,
    LinearAttention,
    Mamba,
    initial_values,
    load_model,
    save_model,
)
from iclab.models.layouts import context_tokens, query_tokens
from iclab.prompts import Prompts, SingleIndex, Stream

D = 3


class MovingAverage(nn.Module):
    """A user's own causal backbone: nothing but a width and a forward."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        counts = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return x + self.dropout(self.second(torch.tanh(self.first(x)).cumsum(1) / counts))


BACKBONES = {
    "mamba": lambda: Mamba(8, 2, state_size=4, dt_min=0.1, dt_max=1.0),
    "constant": lambda: Mamba(8, 1, state_size=3, selectivity="constant_delta"),
    "linear": lambda: LinearAttention(8, 2, state_size=4),
    "learned": lambda: GPT2(8, 2, heads=2, max_positions=32),
    "rotary": lambda: GPT2(8, 1, heads=2, positions="rotary"),
    "own": lambda: MovingAverage(8),
}
CASES = [(backbone, layout) for backbone in BACKBONES for layout in LAYOUTS]


def _model(backbone: str, layout: str) -> InContextModel:
    with initial_values(Stream(1)):
        model = InContextModel(D, BACKBONES[backbone](), layout=layout)
        for parameter in model.parameters():
            nn.init.normal_(parameter, parameter.mean().item(), 0.3)
    return model.double().eval()


def _prompts(num_examples: int = 6, num_queries: int = 3, batch: int = 4) -> Prompts:
    family = SingleIndex(D, 2, "tanh", 0.1)
    drawn = family.sample(Stream(0), batch, num_examples, num_queries, dtype=torch.float64)
    labels = drawn.labels.clone()
    labels[:, num_examples:] = math.nan  # whoever looks at the label of a query predicts NaN
    return Prompts(drawn.inputs, labels, num_examples)


def test_layouts_are_written_as_documented() -> None:
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    y = torch.tensor([[5.0, 6.0]])
    assert context_tokens("interleaved", x, y).tolist() == [[[1, 2], [5, 0], [3, 4], [6, 0]]]
    assert context_tokens("padded", x, y).tolist() == [[[0, 1, 2], [5, 0, 0], [0, 3, 4], [6, 0, 0]]]
    assert context_tokens("concatenated", x, y).tolist() == [[[1, 2, 5], [3, 4, 6]]]
    assert query_tokens("interleaved", x).tolist() == [[[1, 2], [3, 4]]]
    assert query_tokens("padded", x).tolist() == [[[0, 1, 2], [0, 3, 4]]]
    assert query_tokens("concatenated", x).tolist() == [[[1, 2, 0], [3, 4, 0]]]


@pytest.mark.parametrize(("backbone", "layout"), CASES)
def test_every_prediction_is_that_of_the_prompt_cut_there(backbone: str, layout: str) -> None:
    """The definition, written out: tokens of the k examples before, then the query, through the backbone alone."""
    model, prompts = _model(backbone, layout), _prompts()
    x, y, count = prompts.inputs, prompts.labels, prompts.num_examples
    expected = []
    for column in range(count + prompts.num_queries):
        known = min(column, count)
        tokens = torch.cat(
            [context_tokens(layout, x[:, :known], y[:, :known]), query_tokens(layout, x[:, column : column + 1])], 1
        )
        expected.append(model.read_out(model.backbone(model.read_in(tokens)))[:, -1, 0])
    expected = torch.stack(expected, 1)
    torch.testing.assert_close(model(prompts), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(model.prefixes(prompts), expected[:, :count], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(model.queries(prompts), expected[:, count:], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(model.predict_prefixes(prompts), expected[:, :count], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(model.predict(prompts), expected[:, count:], rtol=1e-9, atol=1e-9)
    one = Prompts(x[:, : count + 1], y[:, : count + 1], count)
    torch.testing.assert_close(model(one), expected[:, : count + 1], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(model.queries(one), expected[:, count : count + 1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("backbone", "layout"), CASES)
def test_gradients_reach_every_weight_and_agree_between_the_two_halves_and_the_whole(
    backbone: str, layout: str
) -> None:
    model, prompts = _model(backbone, layout), _prompts()
    weights = torch.randn(4, 9, dtype=torch.float64)
    parameters = list(model.parameters())
    whole = torch.autograd.grad((model(prompts) * weights).sum(), parameters, allow_unused=True)
    along = (model.prefixes(prompts) * weights[:, :6]).sum() + (model.queries(prompts) * weights[:, 6:]).sum()
    halves = torch.autograd.grad(along, parameters, allow_unused=True)
    for first, second in zip(whole, halves, strict=True):
        assert first is not None
        assert second is not None
        assert first.abs().max() > 0 or first.numel() == 0
        torch.testing.assert_close(first, second, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("backbone", "layout"), CASES)
def test_nothing_from_the_future_is_seen(backbone: str, layout: str) -> None:
    model, prompts = _model(backbone, layout), _prompts()
    before = model(prompts)
    for place in (2, 5):
        labels, inputs = prompts.labels.clone(), prompts.inputs.clone()
        labels[:, place] += 3.0
        changed = (model(Prompts(inputs, labels, 6)) - before).abs().amax(0)
        assert (changed[: place + 1] == 0).all()  # its own label neither
        assert (changed[place + 1 :] > 0).all()
        inputs[:, place] += torch.randn(4, D, dtype=torch.float64)
        changed = (model(Prompts(inputs, prompts.labels, 6)) - before).abs().amax(0)
        assert (changed[:place] == 0).all()
        assert (changed[place:] > 0).all()
    inputs = prompts.inputs.clone()
    inputs[:, 7] += 1.0
    changed = (model(Prompts(inputs, prompts.labels, 6)) - before).abs().amax(0)
    assert ((changed > 0) == torch.tensor([False] * 7 + [True, False])).all()  # queries do not see one another


@pytest.mark.parametrize(("backbone", "layout"), CASES)
def test_prompts_without_examples_or_without_queries(backbone: str, layout: str) -> None:
    model = _model(backbone, layout)
    none, full = _prompts(0, 3), _prompts(6, 3)
    assert model.predict(none).shape == model(none).shape == (4, 3)
    assert model.predict_prefixes(none).shape == (4, 0)
    first = Prompts(none.inputs[:, :1], torch.zeros_like(none.labels[:, :1]), 1)
    torch.testing.assert_close(model.predict(none)[:, 0], model(first)[:, 0])
    assert model.predict(full[:0]).shape == (0, 3)
    assert model.predict_prefixes(full[:0]).shape == (0, 6)
    bare = Prompts(full.inputs[:, :6], full.labels[:, :6], 6)
    assert model.predict(bare).shape == (4, 0)
    torch.testing.assert_close(model(bare), model.prefixes(full))
    single = Prompts(full.inputs[:, :1], full.labels[:, :1], 1)
    torch.testing.assert_close(model.predict_prefixes(single), model.prefixes(full)[:, :1])


def test_predictions_come_in_chunks_without_gradients_in_evaluation_mode_and_in_the_prompts_dtype() -> None:
    model = _model("own", "interleaved").float()
    prompts = _prompts(700, 2, batch=24)
    assert len({id(m) for m in model.modules() if m.training}) == 0
    model.train()
    model.read_out.eval()  # a part that the user froze
    first, second = model.predict(prompts), model.predict(prompts)
    assert torch.equal(first, second)  # no dropout
    assert first.dtype == torch.float64
    assert not first.requires_grad
    assert model.training
    assert not model.read_out.training
    model.eval()
    torch.testing.assert_close(first.float(), model.queries(prompts), rtol=1e-4, atol=1e-5)


def test_counts_come_from_real_tensors() -> None:
    mamba = InContextModel(5, Mamba(32, 3, state_size=8, conv_width=4))
    channels, rank = 64, 2
    layer = 32 + 64 * 64 + channels * 5 + channels * (rank + 16) + channels * (rank + 1) + channels * 9 + channels * 32
    assert mamba.num_parameters() == (5 + 1) * 32 + 3 * layer + 32 + 33
    assert mamba.state_size(0) == mamba.state_size(40) == 3 * channels * (3 + 8)
    gpt2 = InContextModel(5, GPT2(32, 2, heads=4, max_positions=64))
    block = 12 * 32 * 32 + 13 * 32
    assert gpt2.num_parameters() == 6 * 32 + 64 * 32 + 2 * block + 64 + 33
    assert [gpt2.state_size(n) for n in (0, 1, 10)] == [0, 2 * 2 * 2 * 32, 2 * 2 * 20 * 32]
    assert InContextModel(5, GPT2(32, 2, heads=4), layout="concatenated").state_size(10) == 2 * 2 * 10 * 32
    with pytest.raises(InputError, match="initial_cache and chunk"):
        InContextModel(5, MovingAverage(4)).state_size(3)


def test_the_longest_prompt_follows_from_the_positions() -> None:
    for layout, longest in (("interleaved", 15), ("padded", 15), ("concatenated", 31)):
        model = _model("learned", layout)
        assert model.max_examples == longest
        model.predict(_prompts(longest, 2))
        model.predict_prefixes(_prompts(longest, 2))
        for call in (model, model.predict, model.predict_prefixes, model.prefixes, model.queries):
            with pytest.raises(InputError, match=f"{longest + 1} examples and .* has positions for {longest}") as error:
                call(_prompts(longest + 1, 2))
            assert "\n" not in str(error.value)
    assert _model("mamba", "padded").max_examples is None
    assert _model("own", "padded").max_examples is None


def test_it_is_a_learner() -> None:
    model = _model("mamba", "interleaved")
    prompts = SingleIndex(D, 2, "tanh", 0.1).sample(Stream(0), 4, 6, 3, dtype=torch.float64)
    curve = error_curve({"ours": model}, prompts, num_examples=[0, 3, 6])["squared_error"]["ours"]
    expected = [((model.predict(prompts.prefix(n)) - prompts.query_targets) ** 2).mean().item() for n in (0, 3, 6)]
    assert curve.values.tolist() == pytest.approx(expected, rel=1e-6)
    assert model.name == "Mamba (2 layers, width 8, state 4), interleaved"
    assert _model("learned", "padded").name == "GPT-2 (2 layers, width 8, 2 heads, learned positions), padded"
    assert _model("own", "padded").name == "MovingAverage, padded"


def test_a_few_steps_of_training_learn_a_sign_in_context() -> None:
    """``y = x`` or ``y = -x``, by prompt: an error below the zero predictor's 1 needs the examples."""
    with initial_values(Stream(0)):
        model = InContextModel(1, Mamba(16, 2, state_size=4))
    family = SingleIndex(1, 1, "z", 0.0)
    optimiser = torch.optim.AdamW(model.parameter_groups(0.01), lr=5e-3)
    for step in range(150):
        prompts = family.sample(Stream(1), 32, 10, 0, start=32 * step)
        loss = (model.prefixes(prompts) - prompts.example_labels).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    test = family.sample(Stream(2), 256, 10, 4)
    assert (model.predict(test) - test.query_labels).square().mean() < 0.3
    assert (model.predict(test.prefix(0)) - test.query_labels).square().mean() > 0.9


def test_the_page_on_models_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    exec(compile("\n".join(blocks), "models.md", "exec"), {})


@pytest.mark.parametrize("backbone", ["mamba", "linear", "learned", "rotary", "own"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_autocast_reads_labels_and_predicts_in_float32(backbone: str, layout: str) -> None:
    model, prompts = _model(backbone, layout).float(), _prompts()
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(prompts)
    exact = model(prompts)
    assert rounded.dtype == torch.float32
    assert (rounded - exact).abs().max() < 0.05 * exact.abs().max() + 0.05
    rounded.sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="one of interleaved, padded, concatenated"):
        InContextModel(D, Mamba(4, 1), layout="interleave")
    with pytest.raises(InputError, match="integer attribute width"):
        InContextModel(D, nn.Linear(4, 4))
    with pytest.raises(InputError, match="prompts have dimension 3; this model was built for 4"):
        InContextModel(4, Mamba(4, 1)).predict(_prompts())

    class Pooling(nn.Module):
        width = 4

        def forward(self, x: Tensor) -> Tensor:
            return x.mean(1)

    with pytest.raises(InputError, match="Pooling returned shape"):
        InContextModel(D, Pooling()).predict(_prompts())
    broken = _model("mamba", "interleaved")
    nn.init.constant_(broken.read_out.weight, math.inf)
    with pytest.raises(InputError, match="not finite"):
        broken.predict(_prompts())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("backbone", ["mamba", "constant", "linear", "learned", "rotary"])
def test_files_bring_back_the_same_bits(backbone: str, layout: str, tmp_path: Path) -> None:
    model, prompts = _model(backbone, layout), _prompts()
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    loaded = load_model(save_model(model, tmp_path))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(loaded.predict(prompts), model.predict(prompts))
    assert (loaded.name, loaded.settings()) == (model.name, model.settings())
    alone = load_model(save_model(model.backbone, tmp_path / "alone"))  # type: ignore[arg-type]
    assert type(alone) is type(model.backbone)
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), model.backbone.parameters(), strict=True))
    assert all(p.requires_grad for p in alone.parameters())


def test_files_hold_the_names_of_transformers(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    save_model(InContextModel(D, Mamba(8, 1)), tmp_path / "mamba")
    save_model(InContextModel(D, GPT2(8, 1, heads=2)), tmp_path / "gpt2")
    mamba, gpt2 = (load_file(tmp_path / kind / "model.safetensors") for kind in ("mamba", "gpt2"))
    mixer = ["A_log", "D", "conv1d.bias", "conv1d.weight", "dt_proj.bias", "dt_proj.weight"]
    mixer += ["in_proj.weight", "out_proj.weight", "x_proj.weight"]
    names = {f"backbone.layers.0.mixer.{name}" for name in mixer} | {"backbone.layers.0.norm.weight"}
    ends = {"read_in.weight", "read_in.bias", "read_out.weight", "read_out.bias"}
    assert mamba.keys() == names | ends | {"backbone.norm_f.weight"}
    assert gpt2["backbone.h.0.attn.c_attn.weight"].shape == (8, 24)
    assert gpt2["backbone.h.0.mlp.c_fc.weight"].shape == (8, 32)
    assert {"backbone.wpe.weight", "backbone.ln_f.bias", "backbone.h.0.ln_2.weight"} < gpt2.keys()
    assert json.loads((tmp_path / "mamba" / "model.json").read_text())["model"] == "InContextModel"


def test_a_backbone_of_one_s_own_is_saved_and_needs_to_be_given_when_loading(tmp_path: Path) -> None:
    model, prompts = _model("own", "padded"), _prompts()
    save_model(model, tmp_path)
    with pytest.raises(InputError, match=r"backbone=MovingAverage\(...\)"):
        load_model(tmp_path)
    loaded = load_model(tmp_path, backbone=MovingAverage(8))
    assert torch.equal(loaded.predict(prompts), model.predict(prompts))
    with pytest.raises(InputError, match="does not fit its description"):
        load_model(tmp_path, backbone=MovingAverage(6))
    with pytest.raises(InputError, match="cannot be saved"):
        save_model(nn.Linear(2, 2), tmp_path)  # type: ignore[arg-type]


def test_settings_that_json_cannot_hold_are_named(tmp_path: Path) -> None:
    backbone: Any = MovingAverage(4)
    backbone.settings = lambda: {"activation": torch.tanh}
    with pytest.raises(InputError, match="settings of InContextModel cannot be saved"):
        save_model(InContextModel(D, backbone), tmp_path)
    assert not list(tmp_path.iterdir())
