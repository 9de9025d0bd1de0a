"""The contract of the scan, for each backend: every output and every gradient against the loop in float64."""

import math

import pytest
import torch

from iclab.ops import selective_scan
from scan_cases import FUSED, Case, largest_error, make, run

TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-12}
every_backend = pytest.mark.parametrize("backend", FUSED)


def agrees(case: Case, backend: str) -> None:
    expected = run(case.leaves(torch.float64), "reference")
    assert largest_error(run(case, backend), expected) < TOLERANCE[case.u.dtype]


@every_backend
@pytest.mark.parametrize("rule", ["mamba", "zoh"])
@pytest.mark.parametrize("softplus", [True, False])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_option(backend: str, rule: str, softplus: bool, full: bool, dtype: torch.dtype):
    agrees(make(full=full, softplus=softplus, rule=rule, dtype=dtype), backend)


@every_backend
@pytest.mark.parametrize("length", range(1, 131))
def test_every_length(backend: str, length: int):
    """Also each remainder of the chunk; two channels and states keep it short."""
    agrees(make(batch=1, length=length, channels=2, states=2, dtype=torch.float64), backend)


@every_backend
@pytest.mark.parametrize("channels", [1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64])
@pytest.mark.parametrize("states", [1, 2, 16])
def test_channels_and_states(backend: str, channels: int, states: int):
    agrees(make(length=5, channels=channels, states=states), backend)


@every_backend
@pytest.mark.parametrize("states", [5, 8, 32, 64, 257])
def test_any_state_size(backend: str, states: int):
    agrees(make(batch=1, length=18, channels=2, states=states), backend)


@every_backend
@pytest.mark.parametrize("batch", [0, 1, 3, 65, 130])
def test_any_batch(backend: str, batch: int):
    """Beyond 64 rows, several rows share the sums over the batch."""
    agrees(make(batch=batch, length=3, channels=17, states=2), backend)


def test_closed_form_of_one_channel():
    """Constant input and step: ``y = b c u delta (1 - a^t)/(1 - a)`` with ``a = exp(delta A)``; with the hold,
    ``-b c u (1 - a^t)/A``."""
    length, step, rate = 40, 0.3, -0.7
    ones = torch.ones(1, length, 1, dtype=torch.float64)
    a = math.exp(step * rate)
    power = a ** torch.arange(1, length + 1, dtype=torch.float64)
    for backend in ("reference", *FUSED):
        for rule, gain in (("mamba", step), ("zoh", (a - 1) / rate)):
            y = selective_scan(
                2 * ones, step * ones, torch.tensor([[rate]]).double(), 3 * ones, 5 * ones,
                discretisation=rule, backend=backend,
            )  # fmt: skip
            assert torch.allclose(y.flatten(), 30 * gain * (1 - power) / (1 - a), rtol=1e-7)


@every_backend
@pytest.mark.parametrize("rule", ["mamba", "zoh"])
def test_gradcheck(backend: str, rule: str):
    case = make(batch=2, length=18, channels=3, states=2, dtype=torch.float64, rule=rule).leaves()

    def scan(*tensors: torch.Tensor):
        return Case(*tensors, softplus=True, rule=rule).scan(backend, return_last_state=True, return_states=True)

    assert torch.autograd.gradcheck(scan, tuple(case.tensors().values()), fast_mode=True)


@every_backend
def test_the_last_state_continues_a_sequence(backend: str):
    """Two halves give what the whole gives, in outputs and in the gradient of the first input."""
    case = make(length=37, dtype=torch.float64).leaves()
    whole = case.scan(backend)
    first = case.map(lambda tensor: tensor[:, :20] if tensor.shape[1:2] == (37,) else tensor)
    second = case.map(lambda tensor: tensor[:, 20:] if tensor.shape[1:2] == (37,) else tensor)
    y_first, state = first.scan(backend, return_last_state=True)
    y_second = second.but(initial_state=state).scan(backend)
    halves = torch.cat([y_first, y_second], 1)
    assert torch.allclose(halves, whole, rtol=1e-12, atol=1e-12)
    weight = torch.linspace(-1, 1, whole.numel()).view_as(whole)
    expected, found = (torch.autograd.grad((y * weight).sum(), case.u)[0] for y in (whole, halves))
    assert torch.allclose(found, expected, rtol=1e-10, atol=1e-12)


@every_backend
def test_states_one_by_one_are_the_steps_of_a_rollout(backend: str):
    case = make(length=9, channels=17, states=16)
    y, states = case.scan(backend, return_states=True)
    state = case.initial_state
    for t in range(9):
        token = case.map(lambda tensor, t=t: tensor[:, t : t + 1] if tensor.shape[1:2] == (9,) else tensor)
        y_t, state = token.but(initial_state=state).scan(backend, return_last_state=True)
        rounding = 0 if backend == "c" else 1e-5  # PyTorch's functions round by where in its vectors a number lies
        assert torch.allclose(y_t[:, 0], y[:, t], rtol=rounding, atol=rounding)
        assert torch.allclose(state, states[:, t], rtol=rounding, atol=rounding)


@every_backend
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(backend: str, dtype: torch.dtype):
    half = make(dtype=dtype)
    wide = half.map(torch.Tensor.float)
    found, expected = run(half, backend), run(wide, backend)
    assert found["y"].dtype == dtype
    assert found["last"].dtype == found["states"].dtype == torch.float32
    assert torch.equal(found["states"], expected["states"])
    assert torch.equal(found["y"], expected["y"].to(dtype))
    assert all(found[name].dtype == dtype for name in half.tensors())


@every_backend
def test_a_float32_model_keeps_its_weights_beside_half_inputs(backend: str):
    case = make()
    mixed = case.but(u=case.u.bfloat16(), z=case.z.bfloat16())
    grads = run(mixed, backend)
    assert grads["A"].dtype == torch.float32
    assert grads["u"].dtype == torch.bfloat16


@every_backend
def test_inputs_need_not_be_contiguous(backend: str):
    case = make(length=20, channels=18, states=4)
    parts = torch.cat([case.u, case.z, case.delta], 2)
    u, z, delta = parts.split(18, 2)
    both = torch.cat([case.B, case.C], 2)
    B, C = both.split(4, 2)
    start = case.initial_state.transpose(0, 2).contiguous().transpose(0, 2)
    views = case.but(u=u, delta=delta, A=case.A.t().contiguous().t(), B=B, C=C, z=z, initial_state=start)
    assert not any(tensor.is_contiguous() for tensor in (u, z, delta, views.A, B, C, start))
    same = torch.equal if backend == "c" else torch.allclose  # PyTorch's products round by layout
    assert same(views.scan(backend), case.scan(backend))
    turned = case.but(u=case.u.transpose(1, 2).contiguous().transpose(1, 2))
    assert same(turned.scan(backend), case.scan(backend))
    summed = case.leaves()
    summed.scan(backend).sum().backward()  # hands the kernel an expanded gradient
    assert summed.u.grad is not None


@every_backend
def test_only_the_gradients_that_are_asked_for(backend: str):
    case = make()
    A = case.A.clone().requires_grad_()
    y, last = case.but(A=A).scan(backend, return_last_state=True)
    by_last = torch.autograd.grad(last.sum(), A, retain_graph=True)[0]
    full = case.leaves(torch.float64)
    expected = torch.autograd.grad(full.scan("reference", return_last_state=True)[1].sum(), full.A)[0]
    assert torch.allclose(by_last.double(), expected, rtol=1e-4, atol=1e-5)
    assert y.requires_grad
