"""Three ways to write a prompt as tokens, each in use in the field (named in results: length and meaning differ).

| layout | tokens of an example | size | query | tokens before N examples are known |
|---|---|---|---|---|
| ``interleaved`` | ``x``, then ``(y, 0, ..., 0)`` | d | ``x`` | 2N |
| ``padded`` | ``(0, x)``, then ``(y, 0, ..., 0)`` | d + 1 | ``(0, x)`` | 2N |
| ``concatenated`` | ``(x, y)`` | d + 1 | ``(x, 0)`` | N |

The first two predict at the token of an input, so one causal pass over the examples predicts each from those before it.
In the third the token of an example holds its own label: a prediction needs a token ``(x, 0)`` of its own, a branch.
Shapes: B prompts, N examples, Q queries, d ambient, L tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from iclab.errors import InputError

LAYOUTS = ("interleaved", "padded", "concatenated")


def check_layout(layout: str) -> str:
    """Return ``layout``; raise `InputError` for an unknown one."""
    if layout not in LAYOUTS:
        raise InputError(f"the layout is {layout!r}; expected one of {', '.join(LAYOUTS)}")
    return layout


def token_size(layout: str, ambient_dim: int) -> int:
    """d, or d + 1 where the label has a coordinate of its own."""
    return ambient_dim if layout == "interleaved" else ambient_dim + 1


def tokens_per_example(layout: str) -> int:
    """1 or 2."""
    return 1 if layout == "concatenated" else 2


def context_tokens(layout: str, inputs: Tensor, labels: Tensor) -> Tensor:
    """``(B, N, d)``, ``(B, N)`` -> ``(B, L, size)``: everything the examples say."""
    if layout == "concatenated":
        return torch.cat([inputs, labels[..., None]], -1)
    first = query_tokens(layout, inputs)
    second = F.pad(labels[..., None], (0, first.shape[-1] - 1))
    return torch.stack([first, second], 2).flatten(1, 2)


def query_tokens(layout: str, inputs: Tensor) -> Tensor:
    """``(B, Q, d) -> (B, Q, size)``: an input whose label is asked for."""
    match layout:
        case "interleaved":
            return inputs
        case "padded":
            return F.pad(inputs, (1, 0))
        case _:
            return F.pad(inputs, (0, 1))
