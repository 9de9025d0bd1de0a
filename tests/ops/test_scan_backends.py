"""Which backend is taken, what is refused, and how; the layout handed to a peer's kernel."""

import logging
import re
import subprocess
import sys
import types

import pytest
import torch

from iclab.errors import InputError
from iclab.ops import BACKENDS, backend_in_use, backends, causal_conv, core, selective_scan
from iclab.ops import backends as list_backends
from iclab.ops.scan import peer
from iclab.ops.scan.kernel import Options, ScanInputs
from scan_cases import FUSED, make

choosing = sys.modules["iclab.ops.backends"]


@pytest.fixture
def no_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "FILE", None)


def test_backends_are_listed_with_what_they_lack(no_core: None):
    listed = backends()
    assert tuple(listed) == BACKENDS
    assert listed["reference"] == listed["torch"] == "available"
    assert "install a C compiler" in listed["c"]
    assert list_backends()["triton"] != "available"


def test_without_the_core_auto_is_the_loop_and_c_is_refused(no_core: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ICLAB_SCAN", raising=False)
    case = make()
    assert backend_in_use() == "torch"
    assert torch.equal(case.scan("auto"), case.scan("torch"))
    with pytest.raises(InputError, match=r"backend 'c' is missing: .*install a C compiler"):
        case.scan("c")
    x, weight = torch.ones(1, 3, 2), torch.ones(2, 2)
    assert torch.equal(causal_conv(x, weight), causal_conv(x, weight, backend="torch"))


@pytest.mark.skipif("c" not in FUSED, reason="the core was not compiled")
def test_with_the_core_auto_is_the_core(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ICLAB_SCAN", raising=False)
    assert backend_in_use() == f"c ({core.instruction_sets()[0]})"
    case = make()
    assert torch.equal(case.scan("auto"), case.scan("c"))
    monkeypatch.setenv("ICLAB_SCAN", "torch")
    assert backend_in_use() == "torch"
    assert torch.equal(case.scan("auto"), case.scan("torch"))
    assert torch.equal(case.scan("c"), case.map(torch.clone).scan("c"))  # a name outranks the variable


def test_auto_says_once_what_it_took(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(choosing, "_announced", set())
    monkeypatch.setenv("ICLAB_SCAN", "torch")
    with caplog.at_level(logging.INFO, "iclab"):
        for _ in range(3):
            make().scan("auto")
    assert len(caplog.records) == 1
    assert "selective scan on cpu: the PyTorch loop" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": torch.ones(2, 19)}, r"u has shape \(2, 19\); expected \(B, L, D\)"),
        ({"u": torch.ones(2, 0, 5)}, "at least one token"),
        ({"delta": torch.ones(2, 19, 4)}, r"delta has shape \(2, 19, 4\); expected \(B, L, D\) = \(2, 19, 5\)"),
        ({"A": -torch.ones(5, 0)}, r"A has shape \(5, 0\); expected \(D, S\) with a state size S of at least 1"),
        ({"A": -torch.ones(4, 3)}, r"A has shape \(4, 3\)"),
        ({"B": torch.ones(2, 18, 3)}, r"B has shape \(2, 18, 3\); expected \(B, L, S\)"),
        ({"C": torch.ones(2, 19, 5)}, "C has shape"),
        ({"D": torch.ones(1)}, r"D has shape \(1,\); expected \(D,\) = \(5,\)"),
        ({"delta_bias": torch.ones(5, 1)}, "delta_bias has shape"),
        ({"z": torch.ones(2, 19, 1)}, "z has shape"),
        ({"initial_state": torch.ones(2, 3, 5)}, r"initial_state has shape .* expected \(B, D, S\)"),
        ({"u": torch.ones(2, 19, 5, dtype=torch.int64)}, "u is of type torch.int64; expected a floating"),
        ({"B": torch.ones(2, 19, 3, device="meta")}, "B is on meta and u on cpu"),
        ({"rule": "euler"}, "discretisation is 'euler'; expected one of mamba, zoh"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(change: dict, message: str):
    with pytest.raises(InputError, match=message) as caught:
        make().but(**change).scan("auto")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [0.0, -0.0, 2.5])
def test_a_rate_that_is_not_negative_is_refused(value: float):
    case = make()
    case.A[3, 1] = value
    with pytest.raises(InputError, match=re.escape(f"A[3, 1] is {value:g}; expected every entry < 0")):
        case.scan("auto")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_found_on_request(value: float):
    case = make()
    case.z[1, 7, 2] = value
    case.scan("auto")
    with pytest.raises(InputError, match=re.escape(f"z[1, 7, 2] is {value}; expected finite numbers")):
        case.scan("auto", check_finite=True)


def test_unknown_and_unfit_backends():
    case = make()
    with pytest.raises(InputError, match=r"backend is 'cuda'; expected one of auto, reference, torch, c"):
        case.scan("cuda")
    with pytest.raises(InputError, match=r"backend 'mamba_ssm' is missing: .*pip install mamba-ssm"):
        case.scan("mamba_ssm")
    with pytest.raises(InputError, match="backend 'triton' is missing"):
        causal_conv(torch.ones(1, 3, 2), torch.ones(2, 2), backend="triton")


@pytest.mark.skipif("c" not in FUSED, reason="the core was not compiled")
def test_an_unknown_instruction_set_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ICLAB_SCAN_SET", "sse9")
    with pytest.raises(InputError, match=r"ICLAB_SCAN_SET is 'sse9'; this processor and build have .*baseline"):
        make().scan("c")


def test_states_that_do_not_fit_are_refused():
    u = torch.ones(1, 1, 1).expand(1 << 20, 1 << 10, 1 << 10)
    small = torch.ones(1, 1, 1).expand(1 << 20, 1 << 10, 16)
    with pytest.raises(InputError, match="the states of all tokens would take"):
        selective_scan(u, u, -torch.ones(1 << 10, 16), small, small, return_states=True)


def test_layout_for_the_peer(monkeypatch: pytest.MonkeyPatch):
    """Stands in for CUDA kernels that are not here: its arguments have time last, as their documentation says."""

    def selective_scan_fn(u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False, **more):
        def turned(tensor):
            return tensor.transpose(1, 2)

        y, last = selective_scan(
            turned(u), turned(delta), A, turned(B), turned(C), D, z=turned(z), delta_bias=delta_bias,
            delta_softplus=delta_softplus, return_last_state=True, backend="reference",
        )  # fmt: skip
        return (turned(y), last) if more["return_last_state"] else turned(y)

    module = types.SimpleNamespace(selective_scan_fn=selective_scan_fn)
    monkeypatch.setitem(sys.modules, "mamba_ssm", types.ModuleType("mamba_ssm"))
    monkeypatch.setitem(sys.modules, "mamba_ssm.ops", types.ModuleType("mamba_ssm.ops"))
    monkeypatch.setitem(sys.modules, "mamba_ssm.ops.selective_scan_interface", module)
    case = make()
    case = case.but(initial_state=None)
    inputs = ScanInputs(*[getattr(case, name) for name in ScanInputs._fields])
    y, last = peer.scan(inputs, Options(True, False, True, False, False))
    expected = case.scan("reference", return_last_state=True)
    assert torch.equal(y, expected[0])
    assert last is not None
    assert torch.equal(last, expected[1])
    with pytest.raises(InputError, match="lacks a last state with a gradient"):
        peer.scan(inputs, Options(True, False, True, False, True))


def test_importing_the_scan_brings_nothing_but_itself_and_the_standard_library_beyond_torch():
    """Which is what keeps it short; `make bench` shows how short."""
    code = "import sys, torch; before = set(sys.modules); import iclab.ops; print(*set(sys.modules) - before)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    strangers = {name.partition(".")[0] for name in found} - {"iclab"} - sys.stdlib_module_names
    assert "iclab.ops" in found
    assert strangers == set(), found
