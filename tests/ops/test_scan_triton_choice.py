"""When the Triton kernels are taken and what is said where they cannot be; no test here runs one."""

import sys

import pytest
import torch

from iclab.errors import InputError
from iclab.ops import backends
from iclab.ops.scan import gpu
from scan_cases import make

choosing = sys.modules["iclab.ops.backends"]


def stand_in(monkeypatch: pytest.MonkeyPatch, installed: bool, cuda: bool, interpreted: bool) -> None:
    monkeypatch.delenv("ICLAB_SCAN", raising=False)
    monkeypatch.setenv("TRITON_INTERPRET", str(int(interpreted)))
    monkeypatch.setattr(gpu, "INSTALLED", installed)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(choosing, "_HAS_MAMBA_SSM", False)


@pytest.mark.parametrize(
    ("installed", "cuda", "message"),
    [
        (False, True, r"backend 'triton' is missing: the package is not installed; `pip install triton`"),
        (True, False, r"backend 'triton' is missing: no CUDA device was found; with TRITON_INTERPRET=1"),
        (True, True, r"backend 'triton' is for cuda tensors and these are on cpu; take backend='auto'"),
    ],
)
def test_refused_on_the_cpu(monkeypatch: pytest.MonkeyPatch, installed: bool, cuda: bool, message: str):
    stand_in(monkeypatch, installed, cuda, interpreted=False)
    with pytest.raises(InputError, match=message) as caught:
        make().scan("triton")
    assert "\n" not in str(caught.value)
    assert (backends()["triton"] == "available") is (installed and cuda)


def test_the_interpreter_takes_tensors_of_the_cpu_when_named(monkeypatch: pytest.MonkeyPatch):
    stand_in(monkeypatch, installed=True, cuda=False, interpreted=True)
    assert choosing.choose("triton", "cpu") == "triton"
    assert choosing.choose("auto", "cpu") != "triton"
    with pytest.raises(InputError, match="for cuda tensors and these are on mps"):
        choosing.choose("triton", "mps")


def test_auto_takes_it_on_cuda_only(monkeypatch: pytest.MonkeyPatch):
    stand_in(monkeypatch, installed=True, cuda=True, interpreted=False)
    assert choosing.choose("auto", "cuda") == "triton"
    assert choosing.choose("auto", "cpu") != "triton"
    monkeypatch.setattr(gpu, "INSTALLED", False)
    assert choosing.choose("auto", "cuda") == "torch"
