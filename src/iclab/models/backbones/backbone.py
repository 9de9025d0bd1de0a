"""What a backbone is: a causal map of token sequences, and questions asked of a sequence at several positions at once.

A *branch* is one token put behind the first ``after`` tokens of a context and seen by no other token. The queries of a
prompt are branches of one context, and so are predictions along a prompt whose tokens hold input and label together.
What else `iclab.models.InContextModel` makes use of is optional: the protocols here.

Shapes: B prompts, L tokens of the context, Q branches, M width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.memory import check_memory
from iclab.models.cache import Cache


class ChunkingBackbone(Protocol):
    """A backbone that can also be fed in chunks, which equals ``forward`` and changes no cache in place."""

    def initial_cache(self, batch: int) -> Cache:
        """The cache of ``batch`` empty sequences."""
        ...

    def chunk(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """The next tokens ``(B, L, M)`` -> outputs ``(B, L, M)`` and the cache behind them."""
        ...


class BranchingBackbone(Protocol):
    """A backbone that answers all branches in one pass over the context."""

    def branch(self, context: Tensor, queries: Tensor, after: Sequence[int]) -> tuple[Tensor, Tensor]:
        """``(B, L, M)``, ``(B, Q, M)`` -> the outputs of both; query q follows the first ``after[q]`` context tokens.

        L >= 1. Equal to `branch_by_repetition`.
        """
        ...


def chunking(backbone: nn.Module) -> ChunkingBackbone | None:
    """The backbone, if it can be fed in chunks."""
    able = all(callable(getattr(backbone, method, None)) for method in ("initial_cache", "chunk"))
    return cast(ChunkingBackbone, backbone) if able else None


def branching(backbone: nn.Module) -> BranchingBackbone | None:
    """The backbone, if it answers branches itself."""
    return cast(BranchingBackbone, backbone) if callable(getattr(backbone, "branch", None)) else None


def branch_by_repetition(
    backbone: Callable[[Tensor], Tensor], context: Tensor, queries: Tensor, after: Sequence[int]
) -> Tensor:
    """Answer the branches of any causal backbone, by running the context again for each of them.

    Costs Q passes over up to L + 1 tokens, batched over branches of one position. The reference for ``branch``, and
    what a backbone without it gets.

    Args:
        backbone: maps ``(B, L, M)`` to ``(B, L, M)`` causally.
        context: tokens ``(B, L, M)``.
        queries: tokens ``(B, Q, M)``.
        after: query q follows the first ``after[q]`` tokens of the context.

    Returns:
        ``(B, Q, M)``, the outputs at the queries.
    """
    outputs: list[Tensor | None] = [None] * len(after)
    for position in sorted(set(after)):
        members = [q for q, there in enumerate(after) if there == position]
        batch, _, width = context.shape
        repeated = context[:, None, :position].expand(batch, len(members), position, width)
        sequences = torch.cat([repeated, queries[:, members, None]], 2)
        last = backbone(sequences.flatten(0, 1))[:, -1].unflatten(0, (batch, len(members)))
        for column, q in enumerate(members):
            outputs[q] = last[:, column]
    return torch.stack([output for output in outputs if output is not None], 1)


def chunk_with_branches_by_copies(
    backbone: ChunkingBackbone, context: Tensor, queries: Tensor, after: Sequence[int], cache: Cache
) -> tuple[Tensor, Tensor, Cache]:
    """`ChunkedBackbone.chunk_with_branches` of any backbone with ``chunk``; its reference.

    One chunk between one branching point and the next, and a copy of the cache there for each query.
    """
    batch, length, _ = context.shape
    outputs, answers = [context[:, :0]], torch.empty_like(queries)
    parts: list[tuple[list[int], Tensor]] = []
    start = 0
    for position in sorted({*after, length}):
        if position > start:
            output, cache = backbone.chunk(context[:, start:position], cache)
            outputs.append(output)
            start = position
        if members := [q for q, behind in enumerate(after) if behind == position]:
            copies = tuple(tuple(tensor.repeat_interleave(len(members), 0) for tensor in layer) for layer in cache)
            answer, _ = backbone.chunk(queries[:, members].flatten(0, 1)[:, None], copies)
            parts.append((members, answer.reshape(batch, len(members), -1)))
    if parts:
        order = [q for members, _ in parts for q in members]
        answers = torch.cat([answer for _, answer in parts], 1)[:, [order.index(q) for q in range(len(after))]]
    return torch.cat(outputs, 1), answers, cache


def check_tokens(x: Tensor, width: int, least: int = 1) -> None:
    """Raise `InputError` unless ``x`` is ``(B, L, width)`` with ``L >= least``."""
    if x.ndim != 3 or x.shape[2] != width or x.shape[1] < least:
        raise InputError(f"tokens have shape {tuple(x.shape)}; expected (prompts, tokens >= {least}, {width})")


def check_after(after: Sequence[int], queries: Tensor, context: Tensor) -> None:
    """Raise `InputError` unless each of ``queries (B, Q, M)`` follows from 0 to L tokens of ``context (B, L, M)``."""
    (batch, count, _), length = queries.shape, context.shape[1]
    if batch != len(context):
        raise InputError(f"the queries are of {batch} sequences and the context of {len(context)}; expected as many")
    if len(after) != count or not all(0 <= tokens <= length for tokens in after):
        raise InputError(f"the queries follow {list(after)} tokens; expected {count} numbers from 0 to {length}")


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
