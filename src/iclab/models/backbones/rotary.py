"""Rotary position embeddings (arXiv 2104.09864): queries and keys turned by angles that grow with the position.

Coordinates i and i + h/2 of a head of size h form a plane, turned by ``position * base^(-2i/h)``; so a product of query
and key depends on their distance alone, and no weight belongs to a position.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BASE = 10000.0

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines ``(L, h/2)``."""


def rotation(positions: Tensor, head_size: int, dtype: torch.dtype) -> Rotation:
    """The angles of ``positions (L,)``, computed in float64: at position 1000 a float32 angle has lost four digits."""
    planes = torch.arange(0, head_size, 2, device=positions.device)
    rates = torch.exp(planes.double() * (-math.log(BASE) / head_size))
    angles = positions.double()[:, None] * rates
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(heads: Tensor, by: Rotation) -> Tensor:
    """``(..., L, h) -> (..., L, h)``."""
    cos, sin = by
    first, second = heads.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)
