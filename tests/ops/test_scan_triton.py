"""The contract of the scan for its Triton kernels, at sizes that Triton's interpreter takes on: ``make test-triton``.

Where there is a CUDA device and no ``TRITON_INTERPRET=1``, the same tests run on that.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from iclab.ops import backends, causal_conv
from iclab.ops.scan import gpu
from scan_cases import Case, largest_error, make, run

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.triton,
    pytest.mark.skipif(backends()["triton"] != "available", reason="needs TRITON_INTERPRET=1 or a CUDA device"),
]
DEVICE = "cpu" if gpu.interpreted() else "cuda"
# A device's own exponential and quotient are right to two units in the last place.
TOLERANCE = {torch.float32: 2e-6 if DEVICE == "cpu" else 1e-5, torch.float64: 1e-12}
CHANNELS = {"y": 2, "last": 1, "states": 2, "u": 2, "delta": 2, "A": 0, "D": 0, "delta_bias": 0, "z": 2}


class Moved(Case):
    """A case whose scan runs on the device, between copies there and back."""

    def scan(self, backend: str, **more: Any) -> Any:
        if backend == "triton":
            results = Case.scan(self.map(lambda tensor: tensor.to(DEVICE)), backend, **more)
            return results.cpu() if isinstance(results, Tensor) else tuple(tensor.cpu() for tensor in results)
        return super().scan(backend, **more)


def moved(batch: int = 1, **options) -> Moved:
    return Moved(**vars(make(batch=batch, **options)))


def agrees(case: Case) -> None:
    expected = run(case.leaves(torch.float64), "reference")
    assert largest_error(run(case, "triton"), expected) < TOLERANCE[case.u.dtype]


def channel(results: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    return {name: results[name].select(place, number) for name, place in CHANNELS.items() if name in results}


@pytest.mark.parametrize("rule", ["mamba", "zoh"])
@pytest.mark.parametrize("softplus", [True, False])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_option(rule: str, softplus: bool, full: bool, dtype: torch.dtype):
    agrees(moved(length=17, full=full, softplus=softplus, rule=rule, dtype=dtype))


@pytest.mark.parametrize("length", [1, 2, 15, 16, 31, 32, 33])
def test_lengths_around_chunks(length: int):
    assert gpu.CHUNK == 16
    agrees(moved(length=length, channels=2, states=2, dtype=torch.float64))


@pytest.mark.parametrize(
    ("channels", "states", "blocks"), [(1, 1, 1), (5, 4, 1), (17, 16, 2), (33, 16, 3), (3, 257, 3)]
)
def test_channels_and_states(channels: int, states: int, blocks: int):
    assert -(-channels // gpu.block_shape(channels, states)[0]) == blocks
    agrees(moved(batch=2, length=3, channels=channels, states=states, dtype=torch.float64))


def test_no_rows():
    agrees(moved(batch=0, length=3))


def test_the_last_state_continues_a_sequence():
    case = moved(length=23, channels=3, dtype=torch.float64).leaves()
    whole = case.scan("triton")
    first = case.map(lambda tensor: tensor[:, :20] if tensor.shape[1:2] == (23,) else tensor)
    second = case.map(lambda tensor: tensor[:, 20:] if tensor.shape[1:2] == (23,) else tensor)
    y_first, state = first.scan("triton", return_last_state=True)
    halves = torch.cat([y_first, second.but(initial_state=state).scan("triton")], 1)
    assert torch.allclose(halves, whole, rtol=1e-12, atol=1e-12)
    weight = torch.linspace(-1, 1, whole.numel()).view_as(whole)
    expected, found = (torch.autograd.grad((y * weight).sum(), case.u)[0] for y in (whole, halves))
    assert torch.allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_only_the_gradients_that_are_asked_for():
    case = moved(length=5)
    A = case.A.clone().requires_grad_()
    last = case.but(A=A).scan("triton", return_last_state=True)[1]
    found = torch.autograd.grad(last.sum(), A)[0]
    full = case.leaves(torch.float64)
    expected = torch.autograd.grad(full.scan("reference", return_last_state=True)[1].sum(), full.A)[0]
    assert torch.allclose(found.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype):
    half = moved(length=5, dtype=dtype)
    found, expected = run(half, "triton"), run(half.map(Tensor.float), "triton")
    assert found["states"].dtype == torch.float32
    assert torch.equal(found["states"], expected["states"])
    assert all(found[name].dtype == dtype for name in half.tensors())
    assert torch.equal(found["y"], expected["y"].to(dtype))


def test_inputs_need_not_be_contiguous():
    case = make(length=5, channels=6, states=4).map(lambda tensor: tensor.to(DEVICE))
    u, z, delta = torch.cat([case.u, case.z, case.delta], 2).split(6, 2)
    B, C = torch.cat([case.B, case.C], 2).split(4, 2)
    start = case.initial_state.transpose(0, 2).contiguous().transpose(0, 2)
    views = case.but(u=u, delta=delta, A=case.A.t().contiguous().t(), B=B, C=C, z=z, initial_state=start)
    assert not any(tensor.is_contiguous() for tensor in (u, z, delta, views.A, B, C, start))
    turned = case.but(u=case.u.transpose(1, 2).contiguous().transpose(1, 2))
    grads = []
    for given in (case, views, turned):
        leaves = given.map(lambda tensor: tensor.detach().requires_grad_())
        y = leaves.scan("triton")
        grads.append((y, *torch.autograd.grad(y.sum(), list(leaves.tensors().values()))))  # an expanded gradient
    for others in grads[1:]:
        assert all(torch.equal(mine, other) for mine, other in zip(grads[0], others, strict=True))


@pytest.mark.parametrize("rule", ["mamba", "zoh"])
def test_steps_and_rates_of_all_sizes(rule: str):
    """A pair for each channel, and each channel compared by itself."""
    pairs = torch.cartesian_prod(
        torch.tensor([0.0, 1e-20, 1e-6, 1e-3, 1.0, 25.0]), -torch.tensor([1e-30, 1e-6, 1.0, 30.0, 1e4])
    )
    case = moved(length=18, channels=len(pairs), states=2, softplus=False, full=False, rule=rule)
    case = case.but(delta=pairs[:, 0].expand_as(case.delta), A=pairs[:, 1:].expand_as(case.A))
    expected = run(case.leaves(torch.float64), "reference")
    if rule == "zoh":  # what autograd makes of (exp(delta A) - 1)/A cancels, also in float64
        expected |= {name: run(case.leaves(torch.float64), "torch")[name] for name in ("A", "delta")}
    found = run(case, "triton")
    assert largest_error(found, expected) < 1e-5
    for number in range(len(pairs)):
        assert largest_error(channel(found, number), channel(expected, number)) < 1e-5, pairs[number]


def test_large_and_small_steps_through_softplus():
    case = moved(length=20, channels=5, states=8, full=False)
    raw = torch.linspace(-100, 100, case.delta.numel()).view_as(case.delta)
    hostile = case.but(delta=raw, A=-torch.logspace(-3, 4, 8).repeat(5, 1))
    expected = run(hostile.leaves(torch.float64), "reference")
    assert largest_error(run(hostile, "triton"), expected) < 1e-5


def test_softplus_is_exact_to_the_last_digits():
    """With ``A`` next to 0 the first state is ``softplus(delta)``: relative error at every size of it."""
    raw = torch.linspace(-85, 85, 1001).view(1, 1, -1)
    one = torch.ones(1, 1, 1)
    case = Moved(torch.ones_like(raw), raw, torch.full((1001, 1), -1e-30), one, one, None, None, None, None)
    expected = torch.logaddexp(raw.double(), torch.zeros(1, dtype=torch.float64))
    assert ((case.scan("triton").double() - expected) / expected).abs().max() < 5e-7


def test_derivative_of_the_hold_where_its_closed_form_cancels():
    """``d/dA (exp(delta A) - 1)/A = delta^2/2 + delta^3 A/3 + ...``; one token, so nothing else depends on ``A``."""
    one = torch.ones(1, 1, 1)
    for rate in (-1e-4, -1e-2):
        A = torch.full((1, 1), rate, requires_grad=True)
        y = Moved(one, one, A, one, one, None, None, None, None, softplus=False, rule="zoh").scan("triton")
        assert torch.autograd.grad(y.sum(), A)[0].item() == pytest.approx(1 / 2 + rate / 3 + rate**2 / 8, rel=1e-6)


def test_decays_below_the_normal_numbers_are_zero():
    one = torch.ones(1, 1, 1)
    for dtype, exponent in ((torch.float32, -100.0), (torch.float64, -720.0)):
        case = Moved(one, one, torch.full((1, 1), exponent), one * 0, one, None, None, None, one, softplus=False)
        assert torch.exp(torch.tensor(exponent, dtype=dtype)) > 0
        assert case.map(lambda tensor, dtype=dtype: tensor.to(dtype)).scan("triton").item() == 0.0


@pytest.mark.parametrize("name", ["u", "delta", "B", "C", "A", "z", "initial_state"])
def test_nan_is_handed_on(name: str):
    """A number that is no number reaches the outputs of its channel and row, and no other row."""
    case = moved(batch=2, length=2)
    spoilt = getattr(case, name).clone()
    spoilt.view(-1)[0] = float("nan")
    y = case.but(**{name: spoilt}).scan("triton")
    assert y[0, :, 0].isnan().any()
    if name != "A":
        assert torch.isfinite(y[1]).all()


def test_bitwise_repeat_and_fresh_memory_is_never_read():
    """Deterministic algorithms fill new tensors with NaN."""
    case = moved(length=17, channels=17, states=16)
    expected = run(case, "triton")
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        found = run(case, "triton")
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("full", [True, False])
def test_opcheck(full: bool):
    case = make(batch=1, length=2, channels=2, states=2, full=full).leaves().map(lambda tensor: tensor.to(DEVICE))
    tensors = [getattr(case, name) for name in ("u", "delta", "A", "B", "C", "D", "delta_bias", "z", "initial_state")]
    options = (True, False, True, True, True, "triton")
    torch.library.opcheck(torch.ops.iclab.selective_scan.default, (*tensors, *options))
    tensors = [None if tensor is None else tensor.detach() for tensor in tensors]
    kept = torch.ops.iclab.selective_scan(*tensors, *options)
    grads = (kept[3], kept[0], kept[1], kept[2])
    torch.library.opcheck(torch.ops.iclab.selective_scan_backward.default, (*grads, *tensors, *options))


def test_the_convolution_is_that_of_pytorch():
    x, weight = torch.randn(2, 5, 3, device=DEVICE), torch.randn(3, 4, device=DEVICE)
    assert torch.equal(causal_conv(x, weight, backend="triton"), causal_conv(x, weight, backend="torch"))


def test_kernels_compile_for_devices(tmp_path: Path):
    """The interpreter accepts more than the compiler does; a state that other threads wrote is read after a barrier."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    found = subprocess.run(
        [sys.executable, "-W", "error", Path(__file__).parents[1] / "helpers" / "triton_targets.py"],
        env={**environment, "TRITON_CACHE_DIR": str(tmp_path)}, text=True, capture_output=True, timeout=240,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    lines = [line.split() for line in found.stdout.splitlines()]
    assert [line[:3] for line in lines] == [
        [f"scan_{direction}", arch, "True"]
        for arch in ("80", "90", "90", "80")
        for direction in ("forward", "backward")
    ]
    assert all(barrier == "True" for name, _, _, barrier in lines if name == "scan_backward")
