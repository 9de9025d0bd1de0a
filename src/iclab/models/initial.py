"""Initial weights that depend on a stream alone."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch

from iclab.prompts import Stream


@contextmanager
def initial_values(stream: Stream) -> Generator[None]:
    """Draw the initial values of modules built inside from ``stream``; torch's own generator is left as it was.

    >>> with initial_values(Stream(0).child("weights")):
    ...     model = InContextModel(8, Mamba(64, 2))
    """
    with torch.random.fork_rng(devices=[]):
        torch.random.set_rng_state(stream.at(0).get_state())
        yield
