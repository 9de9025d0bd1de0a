"""Ranges in which scans have failed elsewhere: fast decays, large steps, denormal numbers, stale memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from iclab.ops import selective_scan
from scan_cases import FUSED, Case, largest_error, make, run

every_backend = pytest.mark.parametrize("backend", FUSED)


def constant_case(step: float, rate: float, **options) -> Case:
    case = make(length=40, channels=6, states=4, softplus=False, full=False, **options)
    return case.but(delta=torch.full_like(case.delta, step), A=torch.full_like(case.A, rate))


@every_backend
@pytest.mark.parametrize("rule", ["mamba", "zoh"])
@pytest.mark.parametrize("step", [0.0, 1e-20, 1e-6, 1e-3, 1.0, 25.0])
@pytest.mark.parametrize("rate", [-1e-30, -1e-6, -1.0, -30.0, -1e4])
def test_steps_and_rates_of_all_sizes(backend: str, rule: str, step: float, rate: float):
    case = constant_case(step, rate, rule=rule)
    expected = run(case.leaves(torch.float64), "reference")
    found = run(case, backend)
    if rule == "zoh":  # what autograd makes of (exp(delta A) - 1)/A cancels, also in float64
        expected |= {name: run(case.leaves(torch.float64), "torch")[name] for name in ("A", "delta")}
    assert largest_error(found, expected) < 1e-5


@every_backend
def test_derivative_of_the_hold_where_its_closed_form_cancels(backend: str):
    """``d/dA (exp(delta A) - 1)/A = delta^2/2 + delta^3 A/3 + ...``; one token, so nothing else depends on ``A``."""
    one = torch.ones(1, 1, 1)
    for rate in (-1e-4, -1e-2):
        A = torch.full((1, 1), rate, requires_grad=True)
        y = selective_scan(one, one, A, one, one, discretisation="zoh", backend=backend)
        assert torch.autograd.grad(y.sum(), A)[0].item() == pytest.approx(1 / 2 + rate / 3 + rate**2 / 8, rel=1e-6)


@every_backend
def test_large_and_small_steps_through_softplus(backend: str):
    case = make(length=40, channels=16, states=16, full=False)
    raw = torch.linspace(-100, 100, case.delta.numel()).view_as(case.delta)
    hostile = case.but(delta=raw, A=-torch.logspace(-3, 4, 16).repeat(16, 1))
    expected = run(hostile.leaves(torch.float64), "reference")
    assert largest_error(run(hostile, backend), expected) < 1e-5


@every_backend
def test_softplus_is_exact_to_the_last_digits(backend: str):
    """With ``A`` next to 0, the first state is ``softplus(delta)``: relative error at every size of it."""
    raw = torch.linspace(-85, 85, 4001).view(1, 1, -1)
    one = torch.ones(1, 1, 1)
    y = selective_scan(
        torch.ones_like(raw), raw, torch.full((4001, 1), -1e-30), one, one, delta_softplus=True, backend=backend
    )
    expected = torch.logaddexp(raw.double(), torch.zeros(1, dtype=torch.float64))
    assert ((y.double() - expected) / expected).abs().max() < 5e-7


def test_the_c_core_leaves_no_denormal_numbers():
    """A state of 1e-38 that halves for a thousand tokens would stay among the denormals, which are slow."""
    if "c" not in FUSED:
        pytest.skip("there is no C core here")
    case = make(batch=4, length=1000, channels=64, states=16, full=False, softplus=False)
    fading = case.but(
        u=torch.zeros_like(case.u),
        delta=torch.full_like(case.delta, 0.01),
        A=torch.full_like(case.A, -1.0),
        initial_state=torch.full((4, 64, 16), 1e-38),
    )
    y, last = fading.scan("c", return_last_state=True)
    assert torch.isfinite(y).all()
    assert (last == 0).all()


@every_backend
@pytest.mark.parametrize("name", ["u", "delta", "B", "C", "A", "z", "initial_state"])
def test_nan_is_handed_on(backend: str, name: str):
    """A number that is no number reaches the outputs of its channel and row, and no other row."""
    case = make(length=20, channels=17, states=16)
    spoilt = getattr(case, name).clone()
    spoilt.view(-1)[0] = float("nan")
    y = case.but(**{name: spoilt}).scan(backend)
    assert y[0, :, 0].isnan().any()
    if name != "A":
        assert torch.isfinite(y[1]).all()


@every_backend
def test_fresh_memory_is_never_read(backend: str):
    """Deterministic algorithms fill new tensors with NaN."""
    case = make(batch=3, length=35, channels=21, states=16)
    expected = run(case, backend)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        found = run(case, backend)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.skipif(sys.platform != "linux" or "c" not in FUSED, reason="fills what malloc returns: glibc, the C core")
def test_fresh_memory_of_the_core_is_never_read():
    code = (
        "import sys; sys.path.insert(0, 'tests/helpers'); from scan_cases import make, run; "
        "import torch; case = make(batch=3, length=35, channels=21, states=16); "
        "print([float(t.double().sum()).hex() for t in run(case, 'c').values()])"
    )
    results = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "MALLOC_PERTURB_": fill}, text=True, check=True,
            capture_output=True, cwd=Path(__file__).parents[2], timeout=120,
        ).stdout
        for fill in ("0", "1", "200")
    }  # fmt: skip
    assert len(results) == 1


@every_backend
def test_bitwise_repeat(backend: str):
    case = make(batch=5, length=40, channels=48, states=16)
    first, second = run(case, backend), run(case, backend)
    assert all(torch.equal(first[name], second[name]) for name in first)
