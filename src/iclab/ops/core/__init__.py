"""The compiled core, ``_core.c``: where it is, which instruction set it takes, and how its tasks reach the threads."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Sequence
from ctypes import c_double, c_int64, c_void_p
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.parallel import map_in_order, torch_team

PANEL = 16  # as in _core.c
CHUNK = 16
_MOST_SLABS = 64  # bounds the memory of partial sums over the batch
_LEAST_TASKS = 16  # a small batch is split by channels until there are so many
_LEAST_WORK = 1 << 17  # numbers in a piece: tens of microseconds, as much as handing it to a thread takes
_PIECES = 4  # for each thread, so that one that is held up by something else on its core does not hold up the rest


class Rows(ctypes.Structure):
    """A tensor ``(B, L, channels or states)`` whose last dimension is contiguous."""

    _fields_ = (("data", c_void_p), ("batch", c_int64), ("time", c_int64))


def _fields(integers: str, layout: str) -> list[tuple[str, type]]:
    """Fields of a job: 64-bit integers, then rows (``*name``) and pointers in their order."""
    rows = [(name.removeprefix("*"), Rows if name.startswith("*") else c_void_p) for name in layout.split()]
    return [(name, c_int64) for name in integers.split()] + rows


class _Shared(ctypes.Structure):
    """A job whose tasks are shares of the batch and the channels, as `shares` says."""

    slabs: int
    groups: int

    @property
    def tasks(self) -> int:
        return self.slabs * self.groups


class ScanJob(_Shared):
    """``struct scan_job`` of ``_core.c``."""

    _fields_ = _fields(
        "length channels states panels batch slabs groups softplus zero_order_hold failed",
        "*u *delta *z *B *C rates inverses skip bias initial y last all_states checkpoints "
        "*grad_y grad_last grad_states grad_u grad_delta grad_z grad_A grad_skip grad_bias grad_B grad_C grad_initial",
    )


class ConvolutionJob(_Shared):
    """``struct convolution_job`` of ``_core.c``."""

    _fields_ = _fields(
        "length channels taps panels batch slabs groups silu failed",
        "*x weight bias initial y *grad_y grad_x grad_weight grad_initial",
    )


class StateJob(ctypes.Structure):
    """``struct state_job`` of ``_core.c``."""

    _fields_ = _fields("tasks examples dim failed", "*x weights zeroth first second")


class GateJob(ctypes.Structure):
    """``struct gate_job`` of ``_core.c``."""

    _fields_ = (
        *_fields("tasks examples weighted failed", ""),
        *[(name, c_double) for name in ("rho", "bias", "unit", "query", "share")],
        *_fields("", "labels results"),
    )


class NormJob(ctypes.Structure):
    """``struct norm_job`` of ``_core.c``."""

    _fields_ = (
        *_fields("tasks rows width failed", ""),
        ("epsilon", c_double),
        *_fields("", "x weight y scale grad_y grad_x grad_weight"),
    )


class Team(ctypes.Structure):
    """``struct team`` of ``_core.c``."""

    _fields_ = _fields("", "kernel job") + _fields("tasks pieces next", "")


Job = ScanJob | ConvolutionJob | StateJob | GateJob | NormJob
AnyJob = TypeVar("AnyJob", ScanJob, ConvolutionJob, StateJob, GateJob, NormJob)


def _find() -> str | None:
    spec = importlib.util.find_spec("iclab.ops.core._core")
    return None if spec is None else spec.origin


FILE = _find()  # where the core is, or None where it was not compiled


@functools.cache
def _library() -> ctypes.CDLL:
    assert FILE is not None
    core = ctypes.CDLL(FILE)
    core.scan_instruction_sets.restype = ctypes.c_char_p
    return core


@functools.cache
def instruction_sets() -> tuple[str, ...]:
    """Those of this processor that the core has kernels for, best first: ``("avx512", "avx2", "baseline")``."""
    return tuple(_library().scan_instruction_sets().decode().split())


def instruction_set() -> str:
    """The one in use: the best, or that of the environment variable ``ICLAB_SCAN_SET``.

    Last bits of results differ from one to another: vectors have other widths, and not all have fused multiply-add.
    """
    wanted = os.environ.get("ICLAB_SCAN_SET", "")
    if wanted and wanted not in instruction_sets():
        raise InputError(f"ICLAB_SCAN_SET is {wanted!r}; this processor and build have {', '.join(instruction_sets())}")
    return wanted or instruction_sets()[0]


def shares(batch: int, channels: int) -> dict[str, int]:
    """How the work of a job is cut into ``slabs * groups`` tasks: by shapes alone, never by threads."""
    panels = -(-channels // PANEL)
    slabs = min(batch, _MOST_SLABS)
    groups = min(panels, -(-_LEAST_TASKS // max(slabs, 1)))
    return {"batch": batch, "channels": channels, "panels": panels, "slabs": slabs, "groups": groups}


def _function(name: str, dtype: torch.dtype) -> Any:
    return _library()[f"{name}_{str(dtype).removeprefix('torch.')}_{instruction_set()}"]


def run(name: str, dtype: torch.dtype, job: Job, work: int) -> None:
    """All tasks of a job on torch's number of threads. ``work`` is a measure of its size in numbers."""
    function = _function(name, dtype)
    tasks = job.tasks
    if tasks == 0:
        return
    threads = torch.get_num_threads()
    pieces = max(1, min(tasks, _PIECES * threads, work // _LEAST_WORK)) if threads > 1 else 1
    pointer = ctypes.byref(job)

    def piece(number: int) -> None:
        begin, end = (tasks * bound // pieces for bound in (number, number + 1))
        function(c_int64(begin), c_int64(end), pointer)

    if pieces > 1 and (together := torch_team()) is not None:
        team = Team(ctypes.cast(function, c_void_p), ctypes.addressof(job), tasks, pieces, 0)
        together(_library().scan_team, ctypes.byref(team), threads)
    elif pieces > 1:
        for _ in map_in_order(piece, pieces):
            pass
    else:
        piece(0)
    if job.failed:
        raise MemoryError(f"{name}: no memory for the buffers of a thread; lower the sizes of a token")


class Pointers(Generic[AnyJob]):
    """A job whose pointers are filled in one by one; holds the tensors that they point to."""

    def __init__(self, job: AnyJob) -> None:
        self.job = job
        self._held: list[Tensor] = []

    def rows(self, name: str, tensor: Tensor | None) -> None:
        """Point to ``(B, L, channels)`` in its own strides; it is copied only where channels are not contiguous."""
        if tensor is None:
            return
        tensor = tensor if tensor.stride(-1) == 1 else tensor.contiguous()
        setattr(self.job, name, Rows(tensor.data_ptr(), tensor.stride(0), tensor.stride(1)))
        self._held.append(tensor)

    def point(self, name: str, tensor: Tensor | None) -> None:
        """Point to a tensor, made contiguous; none leaves a null pointer."""
        if tensor is None:
            return
        tensor = tensor.contiguous()
        setattr(self.job, name, tensor.data_ptr())
        self._held.append(tensor)

    def fresh(self, name: str, like: Tensor, shape: Sequence[int]) -> Tensor:
        """Point to a new tensor, which the core fills."""
        tensor = like.new_empty(tuple(shape))
        self.point(name, tensor)
        return tensor


def sum_first(parts: Tensor) -> Tensor:
    """The sum over the first dimension, added in its order whatever the number of threads."""
    total = parts.new_empty(parts.shape[1:])
    count, size = c_int64(parts.shape[0]), c_int64(total.numel())
    _function("sum_parts", parts.dtype)(c_void_p(parts.data_ptr()), count, size, c_void_p(total.data_ptr()))
    return total


def panelled(matrix: Tensor) -> Tensor:
    """``(D, S)`` as ``(panels, S, PANEL)``, zeros after the last channel."""
    channels, states = matrix.shape
    panels = -(-channels // PANEL)
    padded = matrix.new_zeros(panels * PANEL, states)
    padded[:channels] = matrix
    return padded.view(panels, PANEL, states).transpose(1, 2).contiguous()


def unpanelled(matrix: Tensor, channels: int) -> Tensor:
    """The inverse of `panelled`."""
    return matrix.transpose(1, 2).reshape(-1, matrix.shape[1])[:channels]
