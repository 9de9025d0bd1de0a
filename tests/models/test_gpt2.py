"""GPT-2 as a backbone: transformers' function, `step` and branches equal to `forward`, positions."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from iclab.errors import InputError
from iclab.models import GPT2, from_transformers, no_decay_names, to_transformers
from iclab.models.backbones.rotary import rotate, rotation

POSITIONS = ["learned", "none", "rotary"]


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def _build(positions: str) -> GPT2:
    torch.manual_seed(0)
    model = GPT2(12, 2, heads=3, max_positions=20, positions=positions)
    for parameter in model.parameters():  # weights of size 0.02 would leave attention flat, and biases unseen
        nn.init.normal_(parameter, parameter.mean().item(), 0.4)
    return model.double()


def test_order_matters_only_with_positions() -> None:
    """Without positions one layer sees its past as a set: swapping two earlier tokens changes nothing."""
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    swapped = x[:, [1, 0, 2, 3, 4, 5]]
    for positions in POSITIONS:
        torch.manual_seed(0)
        model = GPT2(12, 1, heads=3, positions=positions).double()
        nn.init.normal_(model.get_parameter("h.0.attn.c_attn.weight"), 0, 0.4)
        gap = (model(x) - model(swapped))[:, 2:].abs().max()
        assert (gap < 1e-12) == (positions == "none")


def test_rotated_products_depend_on_the_distance_alone() -> None:
    query, key = torch.randn(2, 1, 8, dtype=torch.float64)

    def product(i: int, j: int) -> float:
        by = rotation(torch.tensor([i, j]), 8, torch.float64)
        turned = rotate(torch.cat([query, key]), by)
        return float(turned[0] @ turned[1])

    assert product(3, 1) == pytest.approx(product(1002, 1000), abs=1e-9)
    assert product(5, 5) == pytest.approx(float(query[0] @ key[0]), abs=1e-12)
    assert abs(product(3, 1) - product(4, 1)) > 1e-3
    # In the first plane the angle is the position itself, in the last 10000^(-3/4) times it.
    cos, _ = rotation(torch.tensor([2]), 8, torch.float64)
    assert cos[0].tolist() == pytest.approx([math.cos(2.0 * 10000 ** (-i / 4)) for i in range(4)], abs=1e-12)


@pytest.mark.parametrize("std", [0.02, 0.125])
def test_initial_weights_are_those_of_gpt2(std: float) -> None:
    model = GPT2(64, 4, heads=4) if std == 0.02 else GPT2(64, 4, heads=4, initial_std=std)
    for name, parameter in model.named_parameters():
        if name.endswith("c_proj.weight"):
            assert abs(parameter.std().item() / (std / math.sqrt(8)) - 1) < 0.05
        elif parameter.ndim == 2:
            expected = 0.02 if name == "wpe.weight" else std
            assert abs(parameter.std().item() / expected - 1) < 0.05
        else:
            assert (parameter == (0 if name.endswith("bias") else 1)).all()
    assert not {name for name in no_decay_names(model) if name.endswith(("c_attn.weight", "c_fc.weight", "wpe.weight"))}


def _theirs() -> Any:
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    module = GPT2Model(
        GPT2Config(
            vocab_size=1,
            n_embd=24,
            n_layer=3,
            n_head=4,
            n_positions=40,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )
    for parameter in module.parameters():
        nn.init.normal_(parameter, parameter.mean().item(), 0.1)
    return module


@pytest.mark.parametrize("length", [1, 2, 17, 40])
def test_agrees_with_transformers_in_outputs_and_every_gradient(length: int) -> None:
    theirs = _theirs()
    ours = from_transformers(theirs)
    x = torch.randn(3, length, 24)
    weights = torch.randn(3, length, 24)  # a norm makes sums of squares constant; a random functional is not
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = ours(mine)
    expected = theirs(inputs_embeds=other, use_cache=False).last_hidden_state
    assert (y - expected).abs().max() < 1e-5
    (y * weights).sum().backward()
    (expected * weights).sum().backward()
    gradients = {name: p.grad for name, p in theirs.named_parameters() if not name.startswith("wte")}
    assert gradients.keys() == dict(ours.named_parameters()).keys()
    pairs = [(p.grad, gradients[name]) for name, p in ours.named_parameters()]
    for gradient, reference in [(mine.grad, other.grad), *pairs]:
        assert gradient is not None
        assert reference is not None
        assert (gradient - reference).abs().max() < 1e-4 * max(1.0, float(reference.abs().max()))


@pytest.mark.parametrize("positions", ["learned", "none"])
def test_goes_to_transformers_and_back(positions: str) -> None:
    ours = GPT2(24, 2, heads=2, max_positions=12, positions=positions, norm_eps=1e-4)
    for parameter in ours.parameters():
        nn.init.normal_(parameter, parameter.mean().item(), 0.1)
    theirs = to_transformers(ours)
    x = torch.randn(2, 9, 24)
    with torch.no_grad():
        expected = theirs(inputs_embeds=x, use_cache=False).last_hidden_state
    assert (ours(x) - expected).abs().max() < 1e-5
    back = from_transformers(theirs)
    assert back.settings() == {**ours.settings(), "positions": "learned"}
    assert (back(x) - ours(x)).abs().max() < 1e-6


def test_a_model_with_a_head_converts_its_trunk() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    theirs = GPT2LMHeadModel(GPT2Config(vocab_size=5, n_embd=8, n_layer=1, n_head=2, n_positions=6)).eval()
    x = torch.randn(1, 4, 8)
    expected = theirs.transformer(inputs_embeds=x, use_cache=False).last_hidden_state
    assert (from_transformers(theirs)(x) - expected).abs().max() < 1e-5


def test_conversions_that_would_change_the_function_are_refused() -> None:
    theirs = _theirs()
    theirs.config.activation_function = "xielu"
    with pytest.raises(InputError, match="activation is 'xielu'"):
        from_transformers(theirs)
    with pytest.raises(InputError, match="without rotary positions"):
        to_transformers(GPT2(8, 1, heads=2, positions="rotary"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "heads that divide it"),
        ({"heads": 8, "positions": "rotary"}, "cannot be rotated"),
        ({"heads": 2, "positions": "learnt"}, "one of learned, none, rotary"),
        ({"heads": 0}, "heads is 0"),
        ({"heads": 2, "inner_width": 0}, "inner_width is 0"),
        ({"heads": 2, "inner_width": 10**13}, "memory"),
        ({"heads": 2, "activation": "gelu_neu"}, "expected one of gelu"),
        ({"heads": 2, "scale_attention": "yes"}, "expected True or False"),
        ({"heads": 2, "max_positions": 0}, "max_positions is 0"),
        ({"heads": 2, "max_positions": 10_000_000, "width": 4096}, "memory"),
    ],
)
def test_wrong_sizes_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GPT2(settings.pop("width", 8), 1, **settings)


def test_sequences_beyond_the_positions_are_named() -> None:
    model = GPT2(8, 1, heads=2, max_positions=4)
    x = torch.zeros(1, 5, 8)
    cache = model.initial_cache(1)
    for _ in range(4):
        _, cache = model.step(x[:, 0], cache)
    calls = [
        lambda: model(x),
        lambda: model.step(x[:, 0], cache),
        lambda: model.branch(x[:, :4], x[:, :1], [4]),
    ]
    for call in calls:
        with pytest.raises(InputError, match="5 tokens and the model has 4 positions"):
            call()
    assert model.branch(x[:, :4], x[:, :1], [3])[1].shape == (1, 1, 8)
    for free in ("none", "rotary"):
        assert GPT2(8, 1, heads=2, max_positions=4, positions=free)(x).shape == x.shape
