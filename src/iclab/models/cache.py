"""What a backbone carries from one chunk of tokens to the next: its cache, and the checks of one that is handed over.

Shapes: B sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from iclab.errors import InputError

Cache = tuple[tuple[Tensor, ...], ...]
"""For each layer some tensors with the sequences as first dimension."""


class Entry(NamedTuple):
    """One tensor of a layer's cache: its dimensions behind the first, ``None`` for the one that counts tokens."""

    shape: tuple[int | None, ...]
    dtype: torch.dtype

    def empty(self, batch: int, device: torch.device) -> Tensor:
        """What it is of ``batch`` sequences without tokens: zeros."""
        return torch.zeros(batch, *(size or 0 for size in self.shape), dtype=self.dtype, device=device)

    def fits(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` has these dimensions behind its first."""
        found = tensor.shape[1:]
        return len(found) == len(self.shape) and all(
            size in (None, there) for size, there in zip(self.shape, found, strict=True)
        )


Entries = Sequence[tuple[Entry, ...]]
"""Of each layer."""


def initial_cache(entries: Entries, batch: int, device: torch.device) -> Cache:
    """Of ``batch`` sequences without tokens."""
    return tuple(tuple(entry.empty(batch, device) for entry in layer) for layer in entries)


def detach_cache(cache: Cache) -> Cache:
    """Return the same cache as a constant.

    Gradients of what follows end there, as in truncated backpropagation in time.
    """
    return tuple(tuple(tensor.detach() for tensor in layer) for layer in cache)


def check_cache(x: Tensor, cache: Cache, expected: Entries) -> None:
    """Raise `InputError` for a cache that no model of these entries has given for the sequences of ``x (B, ...)``."""
    if not isinstance(cache, (tuple, list)) or not all(isinstance(layer, (tuple, list)) for layer in cache):
        raise InputError(f"the cache is {_kind(cache)}; expected what initial_cache, chunk or step return")
    if len(cache) != len(expected):
        raise InputError(
            f"the cache has {len(cache)} layers and the model {len(expected)}; take it from initial_cache, chunk or "
            "step of this model"
        )
    batches, tokens = set(), set()
    for number, (layer, entries) in enumerate(zip(cache, expected, strict=True)):
        if not all(isinstance(tensor, Tensor) for tensor in layer):
            raise InputError(f"layer {number} of the cache holds more than tensors; expected those of chunk or step")
        if len(layer) != len(entries) or not all(map(Entry.fits, entries, layer)):
            raise InputError(
                f"layer {number} of the cache has tensors of shapes {_shapes(layer)} and this model "
                f"{_written(entries)}; it is of another model: take it from initial_cache, chunk or step of this one"
            )
        for tensor, entry in zip(layer, entries, strict=True):
            batches.add(len(tensor))
            tokens.update(there for size, there in zip(entry.shape, tensor.shape[1:], strict=True) if size is None)
            _check_kind(x, tensor, entry)
    if batches and batches != {len(x)}:
        raise InputError(f"the cache is of {_listed(batches)} sequences and the tokens of {len(x)}; expected as many")
    if len(tokens) > 1:
        raise InputError(
            f"layers of the cache have seen {_listed(tokens)} tokens; expected one cache, not parts of two"
        )


def _check_kind(x: Tensor, tensor: Tensor, entry: Entry) -> None:
    if tensor.dtype != entry.dtype:
        found, model = (str(dtype).removeprefix("torch.") for dtype in (tensor.dtype, entry.dtype))
        raise InputError(f"the cache is {found} where this model has {model}; cast the cache, or start a new one")
    if tensor.device != x.device:
        raise InputError(f"the cache is on {tensor.device} and the tokens on {x.device}; move one of them")


def _kind(cache: object) -> str:
    if isinstance(cache, (tuple, list)):
        return f"a {type(cache).__name__} of {', '.join(sorted({type(layer).__name__ for layer in cache}))}"
    return f"a {type(cache).__name__}"


def _shapes(layer: Sequence[Tensor]) -> str:
    return ", ".join(str(tuple(tensor.shape)) for tensor in layer)


def _written(entries: Sequence[Entry]) -> str:
    return ", ".join(f"(B, {', '.join('L' if size is None else str(size) for size in e.shape)})" for e in entries)


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
