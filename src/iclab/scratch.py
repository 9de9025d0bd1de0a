"""Buffers that a thread uses again and again: fresh memory costs more to touch than the arithmetic done in it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch
from torch import Tensor

_LARGEST = 1 << 24  # bytes kept for reuse; what is larger is given back


class Scratch(threading.local):
    """One buffer a thread. What it holds is lost at the next call of `take` on the same thread."""

    def __init__(self) -> None:
        self._buffer = torch.empty(0, dtype=torch.uint8)

    def take(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """An uninitialised tensor of that shape on the CPU, no part of any graph."""
        size = torch.Size(shape).numel() * dtype.itemsize
        if size > _LARGEST:
            return torch.empty(shape, dtype=dtype)
        if self._buffer.numel() < size:
            self._buffer = torch.empty(size, dtype=torch.uint8)
        return self._buffer[:size].view(dtype).view(shape)
