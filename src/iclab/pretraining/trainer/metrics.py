"""What a training tells while it runs: losses of the steps since the last line, and the file ``metrics.jsonl``."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.files import naming, write_atomic

Line = dict[str, Any]


class Window:
    """Losses and gradient norms of the steps since the last line. On a GPU they are read only when asked for."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.norms: list[float] = []
        self._fresh: list[tuple[Tensor, Tensor]] = []

    def __len__(self) -> int:
        return len(self.losses) + len(self._fresh)

    def add(self, loss: Tensor, norm: Tensor) -> None:
        """The numbers of one more step."""
        self._fresh.append((loss, norm))

    def read(self) -> int | None:
        """Wait for all numbers; returns how many steps ago the first that is not finite was, 0 for the last step."""
        if self._fresh:
            losses, norms = zip(*self._fresh, strict=True)
            self.losses += torch.stack(losses).tolist()
            self.norms += torch.stack(norms).tolist()
            self._fresh = []
        bad = (
            i for i, pair in enumerate(zip(self.losses, self.norms, strict=True)) if not all(map(math.isfinite, pair))
        )
        first = next(bad, None)
        return None if first is None else len(self.losses) - 1 - first

    def means(self) -> Line:
        """``loss`` and ``grad_norm`` averaged over the steps; the window is empty afterwards."""
        count = len(self.losses)
        line: Line = {"loss": math.fsum(self.losses) / count, "grad_norm": math.fsum(self.norms) / count}
        self.losses, self.norms = [], []
        return line


class MetricsLog:
    """Lines of JSON, in memory and, with a path, in a file that a killed process leaves whole up to half a line.

    Args:
        path: the file, or ``None``.
    """

    def __init__(self, path: Path | None) -> None:
        self.lines: list[Line] = []
        self._path = path

    def start(self, kept: bytes) -> None:
        """Begin with the lines ``kept``, as `kept_lines` returns them; whatever else the file held goes."""
        self.lines = [json.loads(line) for line in kept.splitlines()]
        if self._path is not None:
            write_atomic(self._path, kept)

    def add(self, line: Line) -> None:
        """Append a line."""
        self.lines.append(line)
        if self._path is not None:
            with naming(self._path), open(self._path, "ab") as file:
                file.write(json.dumps(line, allow_nan=False).encode() + b"\n")

    def sync(self) -> None:
        """Lines survive a power failure from here on; called before a checkpoint counts on them."""
        if self._path is not None:
            with naming(self._path), open(self._path, "ab") as file:
                os.fsync(file.fileno())


def kept_lines(path: Path, count: int) -> bytes:
    """The first ``count`` lines of a metrics file, as they are: those that a checkpoint knows of.

    Raises:
        InputError: where the file has fewer whole lines, or one of them is no JSON.
    """
    content = path.read_bytes() if path.exists() else b""
    lines = content.split(b"\n")[:-1]
    if len(lines) < count:
        raise InputError(
            f"{path} has {len(lines)} lines and the checkpoint was written after {count}; restore it, or train in "
            "another folder"
        )
    for number, line in enumerate(lines[:count], start=1):
        try:
            whole = isinstance(json.loads(line), dict)
        except ValueError:
            whole = False
        if not whole:
            raise InputError(f"line {number} of {path} is no JSON object; restore it, or train in another folder")
    return b"".join(line + b"\n" for line in lines[:count])
