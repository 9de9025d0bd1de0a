"""Evaluation mode for the time of a prediction."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Generator[None]:
    """All modules in evaluation mode inside; afterwards each is back in the mode it had."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
