"""Every configuration that transformers can run: the same function here, in both directions, in every dtype."""

import warnings
from inspect import signature
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from iclab.errors import InputError
from iclab.models import GPT2, Mamba, branch_by_repetition, from_transformers, to_transformers
from iclab.models.backbones.activations import ACTIVATIONS
from transformers_support import (
    FAMILIES,
    InFloat64,
    gpt2_module,
    gpt2_settings,
    mamba_module,
    mamba_settings,
    outputs,
    scramble,
)

SEEDS = range(24)
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(params=["", "torch"], ids=["core", "without core"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ICLAB_SCAN", request.param)
    return request.param


def _gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("family", "seed"), list(product(FAMILIES, SEEDS)))
def test_any_configuration_has_the_same_outputs_and_gradients(family: str, seed: int, backend: str) -> None:
    settings, build = FAMILIES[family]
    torch.manual_seed(seed)
    theirs = build(settings(seed)).double()
    scramble(theirs)
    ours = from_transformers(theirs)
    mine = torch.randn(2, 9, ours.width, dtype=torch.float64, requires_grad=True)
    other = mine.detach().clone().requires_grad_()
    functional = torch.randn(2, 9, ours.width, dtype=torch.float64)  # a norm makes sums of squares constant
    y = ours(mine)
    with InFloat64():
        expected = outputs(theirs, other)
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-11)
    (y * functional).sum().backward()
    with InFloat64():
        (expected * functional).sum().backward()
    found, known = _gradients(ours), _gradients(theirs)
    assert found.keys() == dict(ours.named_parameters()).keys() == known.keys() - {"embeddings.weight", "wte.weight"}
    assert mine.grad is not None
    assert other.grad is not None
    for gradient, reference in [(mine.grad, other.grad), *((found[name], known[name]) for name in found)]:
        scale = max(1.0, float(reference.abs().max()))
        assert (gradient - reference).abs().max() < 1e-9 * scale


@pytest.mark.parametrize(("family", "seed"), list(product(FAMILIES, SEEDS)))
def test_steps_and_branches_equal_the_whole_pass(family: str, seed: int, backend: str) -> None:
    settings, build = FAMILIES[family]
    torch.manual_seed(seed)
    theirs = build(settings(seed)).double()
    scramble(theirs)
    ours = from_transformers(theirs)
    x = torch.randn(2, 7, ours.width, dtype=torch.float64)
    cache, columns = ours.initial_cache(2), []
    for token in x.unbind(1):
        column, cache = ours.step(token, cache)
        columns.append(column)
    torch.testing.assert_close(torch.stack(columns, 1), ours(x), rtol=1e-9, atol=1e-10)
    queries, after = torch.randn(2, 3, ours.width, dtype=torch.float64), [7, 0, 4]
    along, answers = ours.branch(x, queries, after)
    torch.testing.assert_close(along, ours(x), rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(answers, branch_by_repetition(ours, x, queries, after), rtol=1e-9, atol=1e-10)


def _chunks_of_theirs(theirs: Any, x: Tensor, sizes: list[int]) -> Tensor:
    named = [
        name for name in ("cache", "past_key_values", "cache_params") if name in signature(theirs.forward).parameters
    ]
    outputs, cache = [], None
    for piece in x.split(sizes, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that its kernels are not installed
            result = theirs(inputs_embeds=piece, use_cache=True, **{named[0]: cache})
        outputs.append(result.last_hidden_state)
        cache = result[named[0]]
    return torch.cat(outputs, 1)


@pytest.mark.parametrize(("family", "sizes"), [("gpt2", [4, 2, 1, 2]), ("mamba", [5, 1, 1, 1, 1])])
@pytest.mark.parametrize("seed", range(3))
def test_equals_transformers_with_its_cache(family: str, sizes: list[int], seed: int) -> None:
    """Their Mamba continues a cache by one token at a time, their GPT-2 by any number."""
    settings_of, module = FAMILIES[family]
    theirs = module(settings_of(seed)).double()
    scramble(theirs)
    ours = from_transformers(theirs)
    x = torch.randn(2, 9, ours.width, dtype=torch.float64)
    with torch.no_grad(), InFloat64():
        expected = _chunks_of_theirs(theirs, x, sizes)
    first, cache = ours.chunk(x[:, : sizes[0]])
    second, _ = ours.chunk(x[:, sizes[0] :], cache)
    torch.testing.assert_close(torch.cat([first, second], 1), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("family", "seed", "dtype"), list(product(FAMILIES, range(8), DTYPES)))
def test_there_and_back_in_every_dtype(family: str, seed: int, dtype: torch.dtype) -> None:
    settings, build = FAMILIES[family]
    torch.manual_seed(seed)
    first = from_transformers(build(settings(seed)))
    scramble(first)
    ours = first.double()
    scramble(ours)  # in float64: numbers that float32 cannot hold
    ours = ours.to(dtype)
    theirs = to_transformers(ours)
    back = from_transformers(theirs)
    assert theirs.config.dtype == dtype
    assert {p.dtype for p in theirs.parameters()} == {p.dtype for p in back.parameters()} == {dtype}
    assert back.settings() == ours.settings()
    weights = ours.state_dict()
    assert weights.keys() == back.state_dict().keys()
    assert all(torch.equal(value, weights[name]) for name, value in back.state_dict().items())
    x = torch.randn(2, 9, ours.width).to(dtype)
    with torch.no_grad():
        y, expected = ours(x), outputs(theirs, x)
    assert torch.equal(back(x), y)
    # Each side rounds at every operation; how often is not the same.
    bound = {torch.float64: 2e-5, torch.float32: 2e-5, torch.bfloat16: 0.15, torch.float16: 0.02}[dtype]
    assert (y.double() - expected.double()).abs().max() < bound * max(1.0, float(expected.abs().max()))


def test_weights_of_several_dtypes_keep_theirs() -> None:
    ours = Mamba(6, 1).to(torch.bfloat16)
    ours.get_parameter("layers.0.mixer.A_log").data = torch.randn(12, 16)
    theirs = to_transformers(ours)
    assert theirs.layers[0].mixer.A_log.dtype == torch.float32
    assert theirs.layers[0].mixer.D.dtype == torch.bfloat16
    assert from_transformers(theirs).get_parameter("layers.0.mixer.A_log").dtype == torch.float32


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_residual_stream_in_float32_is_as_exact_as_in_transformers(dtype: torch.dtype) -> None:
    """With 20 layers the stream in bfloat16 loses more than the layers do: the setting must not be dropped."""
    settings = {"vocab_size": 2, "hidden_size": 24, "num_hidden_layers": 20, "state_size": 4}
    errors = {}
    for wide in (True, False):
        torch.manual_seed(0)
        theirs = mamba_module({**settings, "residual_in_fp32": wide})
        exact = from_transformers(theirs)
        theirs = theirs.to(dtype)
        ours = from_transformers(theirs)
        exact.load_state_dict(ours.state_dict())
        x = torch.randn(4, 30, 24).to(dtype)
        y, expected = ours(x), outputs(theirs, x)
        assert y.dtype == expected.dtype == (torch.float32 if wide else dtype)
        assert ours.step(x[:, 0], ours.initial_cache(4))[0].dtype == y.dtype
        assert ours.branch(x, x[:, :2], [1, 30])[1].dtype == y.dtype
        reference = exact(x.float())
        errors[wide] = float((y.float() - reference).square().mean().sqrt())
        theirs_error = float((expected.float() - reference).square().mean().sqrt())
        assert errors[wide] < 1.5 * theirs_error
    assert errors[True] < errors[False] / 2


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activations_are_those_of_transformers(name: str) -> None:
    functions = pytest.importorskip("transformers.activations").ACT2FN
    x = torch.cat([torch.linspace(-30, 30, 301), torch.linspace(-1, 1, 101)]).double()
    torch.testing.assert_close(ACTIVATIONS[name](x), functions[name](x), rtol=1e-12, atol=1e-14)


def test_only_activations_with_weights_are_missing() -> None:
    functions = pytest.importorskip("transformers.activations").ACT2FN
    without = {name for name in functions if not list(functions[name].parameters())}
    assert without == set(ACTIVATIONS)


def test_shared_weights_stay_shared() -> None:
    theirs = mamba_module({**mamba_settings(3), "num_hidden_layers": 3})
    theirs.layers[2] = theirs.layers[0]
    ours = from_transformers(theirs)
    assert ours.get_parameter("layers.2.mixer.A_log") is ours.get_parameter("layers.0.mixer.A_log")
    again = to_transformers(ours)
    assert again.layers[2].norm.weight is again.layers[0].norm.weight
    assert sum(p.numel() for p in again.parameters()) == sum(p.numel() for p in ours.parameters()) + ours.width


def test_heads_are_left_out_tied_or_not() -> None:
    transformers = pytest.importorskip("transformers")
    for tied in (True, False):
        settings = {**mamba_settings(1), "tie_word_embeddings": tied}
        settings.pop("mixer_rms_eps", None)
        theirs = transformers.MambaForCausalLM(transformers.MambaConfig(**settings))
        x = torch.randn(1, 5, settings["hidden_size"])
        assert (from_transformers(theirs)(x) - outputs(theirs.backbone, x)).abs().max() < 1e-5
        theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**gpt2_settings(1), tie_word_embeddings=tied))
        x = torch.randn(1, 5, theirs.config.n_embd)
        assert (from_transformers(theirs.eval())(x) - outputs(theirs.transformer, x)).abs().max() < 1e-5


def _quantised() -> Any:
    module = mamba_module({"vocab_size": 2, "hidden_size": 8, "num_hidden_layers": 1, "state_size": 2})
    module.layers[0].mixer.in_proj.weight = nn.Parameter(
        module.layers[0].mixer.in_proj.weight.detach().char(), requires_grad=False
    )
    return module


def _packed() -> Any:
    module = _quantised()
    module.layers[0].mixer.in_proj.register_buffer("scales", torch.ones(3))
    module.layers[0].mixer.in_proj.weight = nn.Parameter(torch.zeros(3, 8))
    return module


def _odd() -> Any:
    module = mamba_module({"vocab_size": 2, "hidden_size": 8, "num_hidden_layers": 1, "state_size": 2})
    module.layers[0].mixer.out_proj = nn.Linear(5, 8, bias=False)
    return module


def _deeper_than_it_says() -> Any:
    module = gpt2_module(gpt2_settings(0))
    module.config.n_layer += 1
    return module


def _pruned() -> Any:
    module = gpt2_module(gpt2_settings(0))
    prune.l1_unstructured(module.h[0].mlp.c_fc, "weight", 0.5)
    return module


def _without_numbers() -> Any:
    with torch.device("meta"):
        return gpt2_module(gpt2_settings(0))


def _second_generation() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.Mamba2Config(
        vocab_size=3, hidden_size=8, num_hidden_layers=1, state_size=4, num_heads=4, head_dim=4, n_groups=1
    )
    return transformers.Mamba2Model(config)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (_quantised, "in_proj.weight is int8"),
        (_packed, r"in_proj.weight has shape \(3, 8\)"),
        (_odd, r"out_proj.weight has shape \(8, 5\) and the configuration says \(8, 16\)"),
        (_deeper_than_it_says, "has shape absent"),
        (_pruned, "c_fc.weight has shape absent"),
        (_without_numbers, "meta device"),
        (_second_generation, "Mamba-2"),
        (lambda: mamba_module({**mamba_settings(0), "layer_norm_epsilon": 0.0}), "norm_eps is 0"),
        (lambda: gpt2_module({**gpt2_settings(0), "add_cross_attention": True}), "add_cross_attention is True"),
    ],
)
def test_what_cannot_be_converted_is_named_in_a_line(build, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        from_transformers(build())
    assert "\n" not in str(error.value)


def test_settings_from_before_these_options_are_written_as_then() -> None:
    """Checkpoints and trainings are known by their settings: an option at its default adds none."""
    assert set(Mamba(8, 1, channels=16).settings()) == {
        *("width", "depth", "norm_eps", "state_size", "expand", "conv_width", "dt_rank"),
        *("dt_min", "dt_max", "dt_floor", "selectivity"),
    }
    assert set(GPT2(8, 1, heads=2, inner_width=32).settings()) == {
        *("width", "depth", "heads", "max_positions", "positions", "norm_eps", "initial_std"),
    }
