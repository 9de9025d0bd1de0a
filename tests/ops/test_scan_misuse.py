"""What the scan and the models on it say of arguments that cannot be: one line each, and no error of torch's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.memory import MemoryShortage
from iclab.models import GPT2, InContextModel, LinearAttention, Mamba
from iclab.ops import causal_conv, selective_scan
from iclab.prompts import SingleIndex, Stream
from scan_cases import FUSED

BACKBONES = {
    "mamba": lambda: Mamba(8, 2, state_size=4),
    "gpt2": lambda: GPT2(8, 2, heads=2),
    "linear_attention": lambda: LinearAttention(8, 2, state_size=4),
}
every_backbone = pytest.mark.parametrize("name", BACKBONES)


def arguments(batch: int = 2) -> dict[str, Any]:
    torch.manual_seed(0)
    u, B = torch.randn(batch, 3, 4), torch.randn(batch, 3, 5)
    return {"u": u, "delta": u.abs(), "A": -torch.ones(4, 5), "B": B, "C": B}


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("u", np.zeros((2, 3, 4)), "ndarray"),
        ("A", [[-1.0] * 5] * 4, "list"),
        ("C", None, "NoneType"),
        ("D", [1.0] * 4, "list"),
        ("z", 1.0, "float"),
        ("initial_state", np.zeros((2, 4, 5)), "ndarray"),
    ],
)
def test_what_is_no_tensor(name: str, value: Any, kind: str):
    with pytest.raises(InputError, match=f"^{name} is a {kind}; expected a tensor"):
        selective_scan(**{**arguments(), name: value})


def test_what_is_no_tensor_for_the_convolution():
    x = torch.zeros(2, 3, 4)
    with pytest.raises(InputError, match=r"^x is a ndarray; expected a tensor"):
        causal_conv(x.numpy(), torch.zeros(4, 2))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^weight is a list; expected a tensor"):
        causal_conv(x, [[1.0, 2.0]] * 4)  # type: ignore[arg-type]


@pytest.mark.parametrize("gradient", [False, True])
def test_vmap_over_nothing(gradient: bool):
    given = arguments()

    def total(u: Tensor) -> Tensor:
        given["u"] = u
        return selective_scan(**given).sum()

    mapped = torch.func.vmap(torch.func.grad(total) if gradient else total)
    with pytest.raises(InputError, match="vmap maps selective_scan over a dimension of no entries"):
        mapped(torch.zeros(0, 2, 3, 4))


@pytest.mark.parametrize("backend", [*FUSED, "reference"])
def test_out_of_memory_names_the_size_and_what_to_lower(backend: str):
    one = torch.zeros(1, 1, 1)
    wide, narrow = one.expand(2**20, 2**20, 64), one.expand(2**20, 2**20, 4)
    with pytest.raises(
        MemoryShortage, match=r"of u \(1048576, 1048576, 64\) with 4 states .* asked for \d+ bytes"
    ) as caught:
        selective_scan(wide, wide, -torch.ones(64, 4), narrow, narrow, backend=backend)
    assert "lower the batch, the tokens, the channels or the state size" in str(caught.value)
    assert caught.value.asked.endswith("bytes of memory")


def test_out_of_memory_in_the_backward_pass(monkeypatch: pytest.MonkeyPatch):
    from iclab.ops.scan import operator, torch_loop
    from iclab.ops.scan.kernel import Kernel

    def hungry(*_: object) -> Any:
        torch.empty(2**60, dtype=torch.uint8)

    kernel = Kernel(torch_loop.forward, hungry, torch_loop.checkpoint_shape)
    monkeypatch.setitem(operator.KERNELS, "torch", kernel)
    given = arguments()
    y = selective_scan(**{**given, "u": given["u"].requires_grad_()}, backend="torch")
    with pytest.raises(MemoryShortage, match=f"the gradient of the selective scan of .* asked for {2**60} bytes"):
        y.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_states_that_exceed_the_machine_are_counted_in_their_own_precision(dtype: torch.dtype, monkeypatch):
    from iclab import memory

    monkeypatch.setattr(memory, "total_memory", lambda: 2 * 3 * 4 * 5 * 4)  # the states in float32 fit exactly
    given = {name: tensor.to(dtype) for name, tensor in arguments().items()}
    if dtype == torch.float32:
        assert selective_scan(**given, return_states=True)[1].numel() == 2 * 3 * 4 * 5
        return
    with pytest.raises(InputError, match=r"the states of all tokens would take 960 B of memory and .* has 480 B"):
        selective_scan(**given, return_states=True)


@every_backbone
def test_predicting_beyond_memory(name: str, monkeypatch: pytest.MonkeyPatch):
    model = InContextModel(4, BACKBONES[name]())
    prompts = SingleIndex(4, 2, "he2").sample(Stream(0), 2, 6, 3)
    monkeypatch.setattr(model.backbone, "branch", lambda *_: torch.empty(2**60, dtype=torch.uint8))
    with pytest.raises(
        InputError, match=rf"predicting with .* asked for {2**60} bytes .* examples \(6\) or queries \(3\)"
    ):
        model.predict(prompts)


@every_backbone
@pytest.mark.parametrize("batch", [1, 3])
def test_a_cache_of_other_sequences(name: str, batch: int):
    backbone = BACKBONES[name]()
    with pytest.raises(InputError, match=f"the cache is of {batch} sequences and the tokens of 2"):
        backbone.step(torch.zeros(2, 8), backbone.initial_cache(batch))
    with pytest.raises(InputError, match="the cache has 4 layers and the model 2"):
        backbone.step(torch.zeros(2, 8), backbone.initial_cache(2) * 2)


@every_backbone
def test_tokens_wider_than_the_weights(name: str):
    backbone = BACKBONES[name]().bfloat16()
    with pytest.raises(InputError, match="the tokens are float32 and the weights bfloat16; cast the tokens"):
        backbone(torch.zeros(1, 3, 8))
    with pytest.raises(InputError, match="the tokens are float32 and the weights bfloat16; cast the tokens"):
        backbone.step(torch.zeros(1, 8), backbone.initial_cache(1))
    assert backbone(torch.zeros(1, 3, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16
    with pytest.raises(InputError, match="the tokens are float64 and the weights float32"):
        BACKBONES[name]()(torch.zeros(1, 3, 8, dtype=torch.float64))


@pytest.mark.parametrize(("dtype", "lowest"), [(torch.float32, -87.0), (torch.float64, -708.0)])
def test_rates_of_a_mamba_stay_rates(dtype: torch.dtype, lowest: float):
    """Bits and gradients of ``-exp(A_log)`` down to the smallest normal number, and never 0 below it."""
    mixer: Any = Mamba(8, 1, state_size=4).to(dtype).layers[0].mixer
    logs = torch.linspace(lowest, 80.0, mixer.A_log.numel(), dtype=dtype).view_as(mixer.A_log)
    with torch.no_grad():
        mixer.A_log.copy_(logs)
    mixer._rates().sum().backward()
    assert torch.equal(mixer._rates(), -logs.exp())
    assert torch.equal(mixer.A_log.grad, -logs.exp())
    with torch.no_grad():
        mixer.A_log.fill_(-1e30)
    assert (mixer._rates() <= -torch.finfo(dtype).tiny).all()
    assert torch.isfinite(mixer(torch.zeros(1, 3, 8, dtype=dtype))).all()
