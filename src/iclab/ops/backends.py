"""Which implementations are here, and which one ``backend="auto"`` takes."""

from __future__ import annotations

import importlib.util
import logging
import os

import torch

from iclab.errors import InputError
from iclab.ops import core
from iclab.ops.scan import gpu

BACKENDS = ("reference", "torch", "c", "triton", "mamba_ssm")
AVAILABLE = "available"
VARIABLE = "ICLAB_SCAN"  # names the backend that "auto" takes
# Looked for here and not at the call: torch.compile cannot trace the import machinery.
_HAS_MAMBA_SSM = importlib.util.find_spec("mamba_ssm") is not None
_log = logging.getLogger("iclab")
_announced: set[str] = set()


def backends() -> dict[str, str]:
    """Return each backend's name with ``"available"``, or with why it is not and how to get it."""
    return {name: _state(name) for name in BACKENDS}


def backend_in_use(device: str | torch.device = "cpu") -> str:
    """Return what ``"auto"`` takes for tensors on that device, for a run's record: ``"c (avx512)"``, ``"torch"``, ...

    The instruction set is named because the last bits of results depend on it.
    """
    name = choose("auto", torch.device(device).type)
    return f"c ({core.instruction_set()})" if name == "c" else name


def choose(backend: str, device: str, full: bool = True) -> str:
    """The backend to call: the one named, or for ``"auto"`` the fastest one here.

    Args:
        device: type of the tensors' device.
        full: whether the call needs more than ``mamba_ssm`` offers (see `iclab.ops.scan.peer`).

    Raises:
        InputError: the backend is unknown, missing, or not for that device.
    """
    name = os.environ.get(VARIABLE, "") or "auto" if backend == "auto" else backend
    if name == "auto":
        return _fastest(device, full)
    _check_name(name)
    state = _state(name)
    if state != AVAILABLE:
        raise InputError(f"backend {name!r} is missing: {state}; or take backend='auto'")
    needed = {"c": "cpu", "mamba_ssm": "cuda", "triton": "cuda"}.get(name, device)
    if name == "triton" and gpu.interpreted() and device == "cpu":
        return name
    if device != needed:
        raise InputError(f"backend {name!r} is for {needed} tensors and these are on {device}; take backend='auto'")
    return name


def core_wanted() -> bool:
    """Whether the compiled core is here and the environment names no other backend."""
    name = os.environ.get(VARIABLE, "") or "auto"
    _check_name(name)
    return core.FILE is not None and name in ("auto", "c")


def _check_name(name: str) -> None:
    if name not in ("auto", *BACKENDS):
        raise InputError(f"backend is {name!r}; expected one of auto, {', '.join(BACKENDS)}")


def announce(name: str, device: str) -> None:
    """Say once a process and device, on the logger ``iclab``, which backend ``"auto"`` took."""
    place = f"{device} {name}"
    if place in _announced:
        return
    _announced.add(place)
    if name == "torch" and device == "cpu":
        _log.warning("selective scan on %s: the PyTorch loop (%s)", device, _state("c"))
    else:
        _log.info("selective scan on %s: %s", device, f"c ({core.instruction_set()})" if name == "c" else name)


def _fastest(device: str, full: bool) -> str:
    if device == "cpu":
        return "c" if _state("c") == AVAILABLE else "torch"
    if device == "cuda":
        for name in ("mamba_ssm", "triton"):
            if _state(name) == AVAILABLE and not (full and name == "mamba_ssm"):
                return name
    return "torch"


def _state(name: str) -> str:
    match name:
        case "c" if core.FILE is None:
            return "the core was not compiled; install a C compiler (gcc or clang) and install iclab again"
        case "triton" if not gpu.INSTALLED:
            return "the package is not installed; `pip install triton` on Linux, for a machine with CUDA"
        case "triton" if not (torch.cuda.is_available() or gpu.interpreted()):
            return "no CUDA device was found; with TRITON_INTERPRET=1 in the environment it runs on the CPU, slowly"
        case "mamba_ssm" if not _HAS_MAMBA_SSM:
            return "the package is not installed; `pip install mamba-ssm` on a machine with CUDA"
    return AVAILABLE
