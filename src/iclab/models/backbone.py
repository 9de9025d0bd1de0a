"""What a backbone is: a causal map of token sequences, and questions asked of a sequence at several places at once.

A *branch* is one token put behind the first ``after`` tokens of a context and seen by no other token. The queries of a
prompt are branches of one context, and so are predictions along a prompt whose tokens hold input and label together.

Shapes: B prompts, L tokens of the context, Q branches, M width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.memory import check_memory

Cache = tuple[tuple[Tensor, ...], ...]
"""What a backbone carries from token to token: for each layer some tensors with the prompts as first dimension."""


class SteppingBackbone(Protocol):
    """A backbone that can also be fed token by token; ``step`` equals ``forward`` and changes no cache in place."""

    def initial_cache(self, batch: int) -> Cache:
        """The cache of ``batch`` empty sequences."""
        ...

    def step(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """The next tokens ``(B, M)`` -> outputs ``(B, M)`` and the cache after them."""
        ...


class BranchingBackbone(Protocol):
    """A backbone that answers all branches in one pass over the context."""

    def branch(self, context: Tensor, queries: Tensor, after: Sequence[int]) -> tuple[Tensor, Tensor]:
        """``(B, L, M)``, ``(B, Q, M)`` -> the outputs of both; query q follows the first ``after[q]`` context tokens.

        L >= 1. Equal to `branch_by_repetition`.
        """
        ...


def stepping(backbone: nn.Module) -> SteppingBackbone | None:
    """The backbone, if it can be fed token by token."""
    able = all(callable(getattr(backbone, method, None)) for method in ("initial_cache", "step"))
    return cast(SteppingBackbone, backbone) if able else None


def branching(backbone: nn.Module) -> BranchingBackbone | None:
    """The backbone, if it answers branches itself."""
    return cast(BranchingBackbone, backbone) if callable(getattr(backbone, "branch", None)) else None


def branch_by_repetition(
    backbone: Callable[[Tensor], Tensor], context: Tensor, queries: Tensor, after: Sequence[int]
) -> Tensor:
    """``(B, Q, M)``: the branches of any causal backbone, by running the context again for each of them.

    Costs Q passes over up to L + 1 tokens, batched over branches of one place. The reference for ``branch``, and what a
    backbone without it gets.
    """
    outputs: list[Tensor | None] = [None] * len(after)
    for place in sorted(set(after)):
        members = [q for q, there in enumerate(after) if there == place]
        batch, _, width = context.shape
        repeated = context[:, None, :place].expand(batch, len(members), place, width)
        sequences = torch.cat([repeated, queries[:, members, None]], 2)
        last = backbone(sequences.flatten(0, 1))[:, -1].unflatten(0, (batch, len(members)))
        for column, q in enumerate(members):
            outputs[q] = last[:, column]
    return torch.stack([output for output in outputs if output is not None], 1)


def check_tokens(x: Tensor, width: int) -> None:
    """Raise `InputError` unless ``x`` is ``(B, L, width)`` with ``L >= 1``."""
    if x.ndim != 3 or x.shape[2] != width or x.shape[1] < 1:
        raise InputError(f"tokens have shape {tuple(x.shape)}; expected (prompts, tokens >= 1, {width})")


def check_cache(x: Tensor, cache: Cache, depth: int) -> None:
    """Raise `InputError` for a cache that is of another stack, or of other sequences, than the tokens ``x (B, M)``."""
    if len(cache) != depth:
        raise InputError(f"the cache has {len(cache)} layers and the model {depth}; take it from initial_cache or step")
    found = {len(tensor) for layer in cache for tensor in layer}
    if found and found != {len(x)}:
        raise InputError(
            f"the cache is of {', '.join(map(str, sorted(found)))} sequences and the tokens of {len(x)}; expected as "
            "many"
        )


def check_length(length: int, longest: int | None) -> None:
    """Raise `InputError` for a sequence longer than the model has positions for."""
    if longest is not None and length > longest:
        raise InputError(
            f"a sequence has {length} tokens and the model has {longest} positions; build it with a larger "
            'max_positions, or with positions="none" or "rotary"'
        )


def at_least(x: Tensor, weight: Tensor) -> Tensor:
    """Tokens in the dtype of the weights if that is wider: a residual stream stays in float32 under autocast.

    Raises:
        InputError: where that of the tokens is wider.
    """
    dtype = torch.promote_types(x.dtype, weight.dtype)
    if dtype != weight.dtype:
        raise InputError(
            f"the tokens are {_name(x.dtype)} and the weights {_name(weight.dtype)}; cast the tokens, or the model "
            f"with .to(torch.{_name(dtype)})"
        )
    return x.to(dtype)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def check_size(kind: str, width: int, depth: int, parameters: float) -> None:
    """Raise `InputError` for a stack whose float32 weights do not fit this machine's memory."""
    check_memory(f"a {kind} of width {width} and depth {depth}", 4 * parameters)
