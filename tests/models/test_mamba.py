"""Mamba and its ablations: published initial values, `step` and branches equal to `forward`, transformers' function."""

import math
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from iclab.errors import InputError
from iclab.models import (
    InContextModel,
    LinearAttention,
    Mamba,
    from_transformers,
    initial_values,
    no_decay_names,
    to_transformers,
)
from iclab.prompts import Stream


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def _build(kind: str, width: int = 12, depth: int = 2, dtype: torch.dtype = torch.float64) -> Mamba | LinearAttention:
    with initial_values(Stream(0).child(kind)):
        if kind == "linear":
            model = LinearAttention(width, depth, state_size=5)
        else:
            model = Mamba(width, depth, state_size=5, dt_min=0.05, dt_max=1.0, selectivity=kind)
        for parameter in model.parameters():  # away from the zeros and ones that hide a missing term
            nn.init.normal_(parameter, parameter.mean().item(), 0.2)
    return model.to(dtype)


KINDS = ["full", "constant_delta", "linear"]


def test_initial_values_survive_the_construction_of_the_whole_model() -> None:
    with initial_values(Stream(3)):
        model = InContextModel(6, Mamba(64, 6, dt_min=0.002, dt_max=0.05))
        plain = nn.Linear(128, 64, bias=False)
    logs = []
    for name, parameter in model.named_parameters():
        if name.endswith("dt_proj.bias"):
            steps = F.softplus(parameter.double())
            assert steps.min() >= 0.002 * (1 - 1e-4)
            assert steps.max() <= 0.05 * (1 + 1e-4)
            logs.append(steps.log())
        elif name.endswith("A_log"):
            assert torch.equal(parameter, torch.arange(1.0, 17.0).log().expand(128, 16))
        elif name.endswith(("mixer.D", "norm.weight")):
            assert (parameter == 1).all()
        elif name.endswith("conv1d.bias"):
            assert (parameter == 0).all()
        elif name.endswith("dt_proj.weight"):
            assert parameter.abs().max() <= 4**-0.5
            assert abs(parameter.std().item() - 4**-0.5 / 3**0.5) < 0.03
        elif name.endswith("out_proj.weight"):
            assert abs(parameter.std() / plain.weight.std() - 6**-0.5) < 0.02
    uniform = (torch.cat(logs) - math.log(0.002)) / math.log(25)
    assert abs(uniform.mean() - 0.5) < 4 / math.sqrt(12 * len(uniform))
    assert abs(uniform.std() - 12**-0.5) < 0.02


def test_the_floor_raises_initial_time_steps() -> None:
    model = Mamba(32, 1, dt_min=1e-5, dt_max=1e-3, dt_floor=1e-4)
    steps = F.softplus(model.get_parameter("layers.0.mixer.dt_proj.bias").double())
    assert steps.min() >= 0.999e-4
    assert (steps < 1.001e-4).any()


def test_streams_decide_initial_values_and_torch_s_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    models = []
    for seed in (1, 1, 2):
        with initial_values(Stream(seed)):
            models.append(Mamba(8, 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    first, second, third = (model.get_parameter("layers.0.mixer.in_proj.weight") for model in models)
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_constant_delta_is_full_selectivity_with_the_projection_of_time_steps_at_zero() -> None:
    frozen = _build("constant_delta")
    full = _build("full")
    weights = {}
    for name, value in full.state_dict().items():
        if name.endswith("x_proj.weight"):
            weights[name] = torch.cat([torch.zeros_like(value[:1]), frozen.state_dict()[name]])
        else:
            weights[name] = torch.zeros_like(value) if "dt_proj.weight" in name else frozen.state_dict()[name]
    full.load_state_dict(weights)
    x = torch.randn(2, 11, 12, dtype=torch.float64)
    torch.testing.assert_close(frozen(x), full(x), rtol=1e-10, atol=1e-10)
    frozen(x).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in frozen.parameters())


def test_linear_attention_is_the_mean_over_the_past() -> None:
    model = _build("linear", depth=1)
    layer = model.layers[0]
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    weights = dict(layer.named_parameters())
    normed = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weights["norm.weight"]
    u, gate = (normed @ weights["mixer.in_proj.weight"].T).chunk(2, -1)
    kernel = weights["mixer.conv1d.weight"][:, 0]
    convolved = torch.zeros_like(u)
    for t in range(6):
        for back in range(min(t, 3) + 1):
            convolved[:, t] += kernel[:, 3 - back] * u[:, t - back]
    u = F.silu(convolved + weights["mixer.conv1d.bias"])
    keys, queries = (u @ weights["mixer.x_proj.weight"].T).chunk(2, -1)
    for t in range(6):
        mean = sum((queries[:, t] * keys[:, s]).sum(-1, keepdim=True) * u[:, s] for s in range(t + 1)) / (t + 1)
        y = (mean + weights["mixer.D"] * u[:, t]) * F.silu(gate[:, t])
        expected = x[:, t] + y @ weights["mixer.out_proj.weight"].T
        expected = expected / (expected.square().mean(-1, keepdim=True) + 1e-5).sqrt() * model.norm_f.weight
        torch.testing.assert_close(model(x)[:, t], expected, rtol=1e-9, atol=1e-9)


def test_weight_decay_spares_rates_skips_biases_and_norms() -> None:
    model = Mamba(16, 2)
    spared = {name.rsplit("mixer.")[-1] for name in no_decay_names(model)}
    assert spared >= {"A_log", "D", "dt_proj.bias", "conv1d.bias", "norm_f.weight"}
    decayed = {name.rsplit("mixer.")[-1] for name, _ in model.named_parameters()} - spared
    assert decayed == {"in_proj.weight", "conv1d.weight", "x_proj.weight", "dt_proj.weight", "out_proj.weight"}
    groups = InContextModel(3, model).parameter_groups(0.1)
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert sum(len(group["params"]) for group in groups) == len(list(InContextModel(3, model).parameters()))  # type: ignore[arg-type]


def test_autocast_keeps_the_scan_in_float32() -> None:
    model = _build("full", width=32, dtype=torch.float32)
    x = torch.randn(4, 40, 32)
    with torch.autocast("cpu", torch.bfloat16):
        y = model(x)
        state = model.step(x[:, 0], model.initial_cache(4))[1][0][1]
    y.float().sum().backward()
    assert state.dtype == torch.float32
    assert (y - model(x)).abs().max() < 0.1
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def _theirs(state: int = 7, depth: int = 3):
    from transformers import MambaConfig, MambaModel

    config = MambaConfig(
        vocab_size=1,
        hidden_size=24,
        num_hidden_layers=depth,
        state_size=state,
        expand=2,
        conv_kernel=3,
        time_step_rank=5,
    )
    torch.manual_seed(0)
    module = MambaModel(config)
    for parameter in module.parameters():
        nn.init.normal_(parameter, parameter.mean().item(), 0.2)
    return module


@pytest.mark.parametrize("length", [1, 2, 16, 33])
def test_agrees_with_transformers_in_outputs_and_every_gradient(length: int) -> None:
    theirs = _theirs()
    ours = from_transformers(theirs)
    x = torch.randn(3, length, 24)
    weights = torch.randn(3, length, 24)  # a norm makes sums of squares constant; a random functional is not
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = ours(mine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # says that its kernels are not installed
        expected = theirs(inputs_embeds=other, use_cache=False).last_hidden_state
    assert (y - expected).abs().max() < 1e-5
    (y * weights).sum().backward()
    (expected * weights).sum().backward()
    gradients = {name: p.grad for name, p in theirs.named_parameters() if not name.startswith("embeddings")}
    assert gradients.keys() == dict(ours.named_parameters()).keys()
    pairs = [(p.grad, gradients[name]) for name, p in ours.named_parameters()]
    for gradient, reference in [(mine.grad, other.grad), *pairs]:
        assert gradient is not None
        assert reference is not None
        assert (gradient - reference).abs().max() < 1e-4 * max(1.0, float(reference.abs().max()))


def test_goes_to_transformers_and_back() -> None:
    ours = Mamba(24, 2, state_size=3, conv_width=2, norm_eps=1e-4)
    nn.init.normal_(ours.get_parameter("layers.1.mixer.A_log"), 0.0, 0.3)
    theirs = to_transformers(ours)
    x = torch.randn(2, 9, 24)
    with torch.no_grad():
        expected = theirs(inputs_embeds=x, use_cache=False).last_hidden_state
    assert (ours(x) - expected).abs().max() < 1e-5
    back = from_transformers(theirs)
    assert back.settings() == ours.settings()
    assert all(torch.equal(a, b) for a, b in zip(back.state_dict().values(), ours.state_dict().values(), strict=True))


def test_conversions_that_would_change_the_function_are_refused() -> None:
    theirs = _theirs(depth=1)
    theirs.config.hidden_act = "prelu"
    with pytest.raises(InputError, match="activation is 'prelu'"):
        from_transformers(theirs)
    with pytest.raises(InputError, match="expected a MambaModel"):
        from_transformers(nn.Linear(2, 2))
    with pytest.raises(InputError, match="constant time steps"):
        to_transformers(Mamba(8, 1, selectivity="constant_delta"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 0}, "width is 0"),
        ({"depth": 0}, "depth is 0"),
        ({"state_size": 0}, "state_size is 0"),
        ({"dt_min": 0.2}, "dt_min <= dt_max"),
        ({"dt_max": float("inf")}, "dt_max"),
        ({"channels": 0}, "channels is 0"),
        ({"bias": 1}, "bias is 1; expected True or False"),
        ({"activation": "siluu"}, "expected one of gelu"),
        ({"mixer_norm_eps": 0.0}, "mixer_norm_eps is 0"),
        ({"channels": 10**12}, "memory"),
        ({"selectivity": "fulll"}, "one of full, constant_delta"),
        ({"width": 1_000_000, "depth": 12}, "memory"),
    ],
)
def test_wrong_sizes_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Mamba(settings.pop("width", 8), settings.pop("depth", 1), **settings)


def test_wrong_tokens_are_named() -> None:
    for shape in ((2, 3, 7), (2, 0, 8), (2, 8)):
        with pytest.raises(InputError, match="tokens have shape"):
            Mamba(8, 1)(torch.zeros(shape))
