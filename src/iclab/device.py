"""Where deep models are trained and evaluated when an experiment runs: a matter of execution, never of a configuration.

A cell is a function of its configuration alone; the device, like the number of threads, is set around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_device: ContextVar[str] = ContextVar("iclab_device", default="cpu")


def training_device() -> str:
    """The device for the deep models of the cell that runs: ``cpu`` unless a run was told otherwise."""
    return _device.get()


@contextmanager
def on_device(name: str) -> Iterator[None]:
    """Inside, `training_device` is ``name``."""
    token = _device.set(name)
    try:
        yield
    finally:
        _device.reset(token)
