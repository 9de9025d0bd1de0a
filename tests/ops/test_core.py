"""The compiled core: its instruction sets, its threads, its share of the work, its convolution."""

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.nn.functional import conv1d, silu

from iclab.errors import InputError
from iclab.ops import causal_conv, core, selective_scan
from iclab.ops.scan import compiled as cpu
from iclab.ops.scan.kernel import Options, ScanInputs
from iclab.parallel import torch_team
from scan_cases import FUSED, largest_error, make, run

pytestmark = pytest.mark.skipif("c" not in FUSED, reason="the core was not compiled")
SOURCE = Path(__file__).parents[2] / "src" / "iclab" / "ops" / "core" / "_core.c"


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("scan_job", core.ScanJob),
        ("convolution_job", core.ConvolutionJob),
        ("state_job", core.StateJob),
        ("gate_job", core.GateJob),
        ("norm_job", core.NormJob),
    ],
)
def test_structures_are_those_of_the_source(name: str, job: type[ctypes.Structure]):
    """A field out of order would be read as another."""
    body = re.search(rf"struct {name} \{{(.*?)\n\}};", SOURCE.read_text(), re.DOTALL)
    assert body is not None
    code = re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)
    found = []
    for declaration in code.split(";"):
        kind, _, names = declaration.strip().partition("rows " if "struct rows" in declaration else " ")
        for field in filter(None, re.sub(r"^(const )?(void )?", "", names).split(",")):
            kinds = {"int64_t": ctypes.c_int64, "double": ctypes.c_double, "struct ": core.Rows}
            kind_of_field = kinds.get(kind, ctypes.c_void_p)
            found.append((field.strip().removeprefix("void").strip(" *"), kind_of_field))
    assert found == [(field[0], field[1]) for field in job._fields_]


@pytest.mark.parametrize("which", ["avx512", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rule", ["mamba", "zoh"])
def test_every_instruction_set(which: str, dtype: torch.dtype, rule: str, monkeypatch: pytest.MonkeyPatch):
    if which not in core.instruction_sets():
        pytest.skip(f"no {which} on this processor or from this compiler")
    monkeypatch.setenv("ICLAB_SCAN_SET", which)
    for states in (3, 16):
        case = make(length=34, channels=21, states=states, dtype=dtype, rule=rule)
        expected = run(case.leaves(torch.float64), "reference")
        assert largest_error(run(case, "c"), expected) < (3e-6 if dtype == torch.float32 else 1e-12)
    x, weight = torch.randn(2, 9, 21, dtype=dtype), torch.randn(21, 4, dtype=dtype)
    expected_y = causal_conv(x.double(), weight.double(), backend="reference")
    assert torch.allclose(causal_conv(x, weight, backend="c").double(), expected_y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("batch", "channels"), [(1, 300), (3, 100), (70, 40)])
def test_results_do_not_depend_on_threads(batch: int, channels: int, threads: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(core, "_LEAST_WORK", 1)
    case = make(batch=batch, length=20, channels=channels, states=16)
    x = torch.randn(batch, 20, channels, requires_grad=True)
    weight = torch.randn(channels, 4, requires_grad=True)
    results = []
    for number in (1, 2, 3, 5):
        torch.set_num_threads(number)
        y = causal_conv(x, weight, backend="c")
        results.append([*run(case, "c").values(), y.detach(), *torch.autograd.grad(y.square().sum(), (x, weight))])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_every_channel_and_row_is_in_one_task():
    for batch, channels in [(1, 1), (1, 512), (5, 40), (64, 512), (200, 33)]:
        share = core.shares(batch, channels)
        rows = [(batch * i // share["slabs"], batch * (i + 1) // share["slabs"]) for i in range(share["slabs"])]
        panels = [
            (share["panels"] * i // share["groups"], share["panels"] * (i + 1) // share["groups"])
            for i in range(share["groups"])
        ]
        assert [row for low, high in rows for row in range(low, high)] == list(range(batch))
        assert [panel for low, high in panels for panel in range(low, high)] == list(range(-(-channels // 16)))
        assert all(high > low for low, high in rows + panels)


FORK = """
import os, sys, torch
sys.path.insert(0, "tests/helpers")
from scan_cases import make
from iclab.ops import core
core._LEAST_WORK = 1
torch.set_num_threads(2)
case = make(batch=8, channels=64, states=16)
expected = case.scan("c")
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(case.scan("c"), expected) else 7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_has_its_own_threads():
    """Data loaders fork: threads of the parent are not there, and waiting for them would never end."""
    done = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == "0", done.stderr


@pytest.mark.parametrize("backend", [*FUSED, "reference"])
@pytest.mark.parametrize("taps", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("activation", ["silu", None])
@pytest.mark.parametrize("length", [1, 2, 4, 19])
def test_convolution_is_that_of_pytorch(backend: str, taps: int, activation: str | None, length: int):
    """Outputs and gradients beside ``conv1d``, whose padding with zeros is no initial state."""
    generator = torch.Generator().manual_seed(taps)
    shapes = ((3, length, 21), (21, taps), (21,), (3, taps - 1, 21))
    leaves = [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]
    x, weight, bias, start = leaves
    expected = conv1d(torch.cat([start, x], 1).transpose(1, 2), weight[:, None], bias, groups=21).transpose(1, 2)
    expected = silu(expected) if activation else expected
    y, last = causal_conv(
        x, weight, bias, activation=activation, initial_state=start, return_last_state=True, backend=backend
    )
    assert torch.allclose(y, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(last, torch.cat([start, x], 1)[:, length:])
    weights = torch.linspace(-1, 1, y.numel()).view_as(y)
    found, wanted = (torch.autograd.grad((out * weights).sum(), leaves, allow_unused=True) for out in (y, expected))
    for a, b in zip(found, wanted, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-12) if b is not None else not a.any()


@pytest.mark.parametrize("backend", FUSED)
def test_convolution_of_float32_halves_views_and_nothing(backend: str):
    x = torch.randn(2, 9, 42)[..., ::2]
    weight = torch.randn(21, 4)
    y = causal_conv(x, weight, backend=backend)
    exact = causal_conv(x, weight, backend="reference")
    assert torch.allclose(y, exact, rtol=1e-5, atol=1e-6)
    half = causal_conv(x.bfloat16(), weight, backend=backend)
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, causal_conv(x.bfloat16().float(), weight, backend=backend).bfloat16())
    assert causal_conv(x[:0], weight, backend=backend).shape == (0, 9, 21)
    far = causal_conv(200 * x, weight, backend=backend)
    assert torch.allclose(far, causal_conv(200 * x, weight, backend="reference"), rtol=1e-5, atol=1e-4)


def test_wrong_convolutions_are_refused():
    x, weight = torch.ones(2, 5, 3), torch.ones(3, 4)
    with pytest.raises(InputError, match=r"weight has shape \(4, 3\); expected \(D, K\) = \(3, 3\)"):
        causal_conv(x, weight.t())
    with pytest.raises(InputError, match=r"initial_state has shape .*expected \(B, K - 1, D\) = \(2, 3, 3\)"):
        causal_conv(x, weight, initial_state=torch.ones(2, 4, 3))
    with pytest.raises(InputError, match="activation is 'relu'; expected 'silu' or None"):
        causal_conv(x, weight, activation="relu")
    with pytest.raises(InputError, match="at least one tap"):
        causal_conv(x, torch.ones(3, 0))


@pytest.mark.skipif(torch_team() is None, reason="torch's threads cannot be had here")
def test_threads_of_torch_and_of_our_pool_give_the_same_bits(threads: None, monkeypatch: pytest.MonkeyPatch):
    """Whoever runs the tasks runs each once; a task that was left out would leave its part of the outputs as it was."""
    monkeypatch.setattr(core, "_LEAST_WORK", 1)
    case = make(batch=9, length=18, channels=70, states=16)
    torch.set_num_threads(3)
    team = run(case, "c")
    monkeypatch.setattr(core, "torch_team", lambda: None)
    pool = run(case, "c")
    torch.set_num_threads(1)
    alone = run(case, "c")
    assert all(torch.equal(team[name], pool[name]) and torch.equal(team[name], alone[name]) for name in team)
    assert len(team) > 8


def test_a_team_takes_every_piece_once(threads: None):
    """Each piece is a call with its own range of tasks; together they are all tasks."""
    ranges: list[tuple[int, int]] = []
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(lambda *r: ranges.append(r[:2]))
    team = core.Team(ctypes.cast(kernel, ctypes.c_void_p), None, 23, 7, 0)
    core._library().scan_team(ctypes.byref(team))
    assert ranges == [(23 * piece // 7, 23 * (piece + 1) // 7) for piece in range(7)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_partial_sums_are_added_in_their_order(dtype: torch.dtype):
    parts = torch.randn(37, 5, 13, generator=torch.Generator().manual_seed(0)).to(dtype) * 1e3
    expected = torch.zeros(5, 13, dtype=dtype)
    for part in parts:
        expected += part
    assert torch.equal(core.sum_first(parts), expected)
    assert torch.equal(core.sum_first(parts[:0]), torch.zeros(5, 13, dtype=dtype))


@pytest.mark.parametrize("which", ["avx512", "avx2", "baseline"])
@pytest.mark.parametrize("channels", [1, 7, 16, 21])
def test_every_number_that_is_kept_is_written(which: str, channels: int, monkeypatch: pytest.MonkeyPatch):
    """Also in lanes that no channel has: operators return what is kept, and their outputs are functions of inputs."""
    if which not in core.instruction_sets():
        pytest.skip(f"no {which} on this processor or from this compiler")
    monkeypatch.setenv("ICLAB_SCAN_SET", which)
    fresh = core.Pointers.fresh
    monkeypatch.setattr(core.Pointers, "fresh", lambda *arguments: fresh(*arguments).fill_(torch.nan))
    case = make(length=18, channels=channels, states=3)
    inputs = ScanInputs(case.u, case.delta, case.A, case.B, case.C, case.D, case.delta_bias, case.z, case.initial_state)
    options = Options(softplus=True, zero_order_hold=False, last_state=True, all_states=True, checkpoints=True)
    outputs = cpu.forward(inputs, options)
    assert all(output.isfinite().all() for output in outputs)


@pytest.mark.parametrize("which", ["avx512", "avx2", "baseline"])
@pytest.mark.parametrize("step", [7.5, 8.0, 40.0, 1e4, 1e30, float("inf"), float("nan")])
def test_an_unusual_step_touches_no_other_number(which: str, step: float, monkeypatch: pytest.MonkeyPatch):
    """Exponents in the usual range, about -126 log 2 and up, go another way; a vector and a chunk take one together."""
    if which not in core.instruction_sets():
        pytest.skip(f"no {which} on this processor or from this compiler")
    monkeypatch.setenv("ICLAB_SCAN_SET", which)
    usual = make(length=40, channels=21, states=16)
    usual = usual.but(A=-torch.arange(1.0, 17.0).repeat(21, 1))
    delta = usual.delta.clone()
    delta[0, 20, 3] = step
    unusual = usual.but(delta=delta)
    found, before = run(unusual, "c"), run(usual, "c")
    others = [channel for channel in range(21) if channel != 3]
    for name in ("y", "u", "delta", "z"):
        assert torch.equal(found[name][1], before[name][1])
        assert torch.equal(found[name][0, :, others], before[name][0, :, others])
    assert torch.equal(found["y"][0, :20, 3], before["y"][0, :20, 3])
    if step < float("inf"):
        assert largest_error(found, run(unusual.leaves(torch.float64), "reference")) < 5e-6
    else:
        assert not found["y"][0, 20, 3].isfinite()


@pytest.mark.parametrize("which", ["avx512", "avx2", "baseline"])
@pytest.mark.parametrize("place", [0, 5, 15])
def test_a_rate_that_is_no_number_spoils_its_state_alone(which: str, place: int, monkeypatch: pytest.MonkeyPatch):
    """Its channel has exponents far below -126 beside it."""
    if which not in core.instruction_sets():
        pytest.skip(f"no {which} on this processor or from this compiler")
    monkeypatch.setenv("ICLAB_SCAN_SET", which)
    A = -torch.ones(1, 16)
    A[0, 3], A[0, place] = -245.2, torch.nan
    ones = torch.ones(1, 4, 16)
    arguments = (torch.ones(1, 4, 1), torch.full((1, 4, 1), 0.9), A, ones, ones)
    found, expected = (
        selective_scan(*arguments, delta_softplus=True, return_states=True, backend=backend)[1]
        for backend in ("c", "reference")
    )
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_powers_beyond_the_largest_number_are_infinite():
    exponents = torch.tensor([126.0, 127.4, 127.6, 128.5, 1e6], dtype=torch.float64)
    delta = (-exponents * torch.log(torch.tensor(2.0, dtype=torch.float64))).float()[None, None]
    zeros = torch.zeros(1, 1, 1)
    start = torch.ones(1, 5, 1)
    _, last = selective_scan(
        torch.zeros(1, 1, 5),
        delta,
        -torch.ones(5, 1),
        zeros,
        zeros,
        initial_state=start,
        return_last_state=True,
        backend="c",
    )
    assert torch.allclose(last[0, :2, 0].double(), 2 ** exponents[:2], rtol=1e-4)
    assert last[0, 2:, 0].isinf().all()
