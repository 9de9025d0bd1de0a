"""Embeddings ``phi`` of the one-layer model, written out. The model never builds them per token; references do.

Order of the coordinates of ``hermite2`` (orthonormal under ``N(0, I_d)``, arXiv 2510.12026):
``1``, then ``x_i``, then ``(x_i^2 - 1)/sqrt 2``, then ``x_i x_j`` for ``i < j``, row by row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from iclab.errors import InputError

EMBEDDINGS = ("hermite2", "identity")


def embedding_dim(embedding: str, ambient_dim: int) -> int:
    """Return D: ``1 + d + d(d+1)/2`` for ``hermite2``, d for ``identity``.

    Args:
        embedding: one of `EMBEDDINGS`.
        ambient_dim: d.

    Raises:
        InputError: for another embedding.
    """
    if embedding not in EMBEDDINGS:
        raise InputError(f"the embedding is {embedding!r}; expected one of {', '.join(EMBEDDINGS)}")
    return ambient_dim if embedding == "identity" else 1 + ambient_dim + ambient_dim * (ambient_dim + 1) // 2


def embed(x: Tensor, embedding: str = "hermite2") -> Tensor:
    """Map inputs ``(..., d)`` to embeddings ``phi(x)``, ``(..., D)``.

    Memory O(d^2) a token: for tests and for reading beside the paper.

    Args:
        x: inputs ``(..., d)``.
        embedding: one of `EMBEDDINGS`.

    Reference: arXiv 2510.12026.
    """
    if embedding == "identity":
        return x
    rows, columns = pair_indices(x.shape[-1])
    ones = torch.ones_like(x[..., :1])
    return torch.cat([ones, x, (x * x - 1) / 2**0.5, x[..., rows] * x[..., columns]], -1)


def pair_indices(ambient_dim: int) -> tuple[Tensor, Tensor]:
    """Rows and columns ``i < j`` in the order of the embedding."""
    rows, columns = torch.triu_indices(ambient_dim, ambient_dim, offset=1)
    return rows, columns


def block_degrees(embedding: str, ambient_dim: int) -> Tensor:
    """Return the Hermite degree of each coordinate of the embedding.

    Args:
        embedding: one of `EMBEDDINGS`.
        ambient_dim: d.

    Returns:
        ``(D,)``, int64.
    """
    if embedding == "identity":
        return torch.ones(ambient_dim, dtype=torch.int64)
    counts = torch.tensor([1, ambient_dim, ambient_dim * (ambient_dim + 1) // 2])
    return torch.repeat_interleave(torch.arange(3), counts)


def in_support(embedding: str, ambient_dim: int, support: tuple[int, ...]) -> Tensor:
    """Mark the coordinates of the embedding that depend on the support alone (the constant is not one of them).

    Args:
        embedding: one of `EMBEDDINGS`.
        ambient_dim: d.
        support: indices of inputs.

    Returns:
        ``(D,)``, bool.
    """
    inside = torch.zeros(ambient_dim, dtype=torch.bool)
    inside[list(support)] = True
    if embedding == "identity":
        return inside
    rows, columns = pair_indices(ambient_dim)
    return torch.cat([torch.zeros(1, dtype=torch.bool), inside, inside, inside[rows] & inside[columns]])
