"""One layer of attention on tokens ``(x, y)``: the models of arXiv 2510.00399.

    F = sum_{i<=N} G_i y_i p_i' W_B' W_C p_q          p_i = (x_i, y_i),  p_q = (x_q, 0)

`GatedLinearAttention` is Mamba's layer with ``G_i = sigmoid(w'p_i) prod_{j=i+1}^{N+1} (1 - sigmoid(w'p_j))``, where
token N + 1 is the query; ungated it is the linear Transformer, ``G = 1``. `SoftmaxAttention` has the weights of a
softmax in the place of the products. No convolution, norm, output gate or residual.
Shapes: B prompts, N examples, Q queries, d ambient, D = d + 1 size of a token, m size of the state.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from iclab.errors import InputError, check_integer, check_positive
from iclab.memory import check_memory
from iclab.models.attention.attention import Attention
from iclab.models.attention.mixers import KINDS, GatedTokenMixer, TokenMixer
from iclab.models.attention.token_model import TokenModel
from iclab.models.cache import Cache, Entries
from iclab.prompts import Stream

_LABELS = slice(-1, None)  # the coordinate of a token that is summed


class OneLayerAttention(TokenModel):
    """What the one-layer models share: a mixer, whose weights are summed with the labels."""

    mixer: TokenMixer

    def __init__(self, kind: str, ambient_dim: int, start: float, state_size: int | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.ambient_dim, size = check_sizes(ambient_dim, state_size)
        self.start = check_positive("start", start)
        self.state_size = size
        self.mixer = KINDS[kind](ambient_dim + 1, size, self.start, ambient_dim, check_dtype(dtype))

    @property
    def W_B(self) -> nn.Parameter:
        """``(m, D)``."""
        return self.mixer.W_B

    @property
    def W_C(self) -> nn.Parameter:
        """``(m, D)``."""
        return self.mixer.W_C

    def read(self, context: Tensor, queries: Tensor, after: Tensor | None) -> tuple[Tensor, Attention]:
        """As in `TokenModel`."""
        attention = self.mixer.attend(context, queries, after)
        return (attention.weights[0] @ context[..., -1:])[..., 0], attention

    def cache_entries(self) -> Entries:
        """As in `TokenModel`."""
        return [(self.mixer.cache_entry(_LABELS),)]

    def read_chunk(self, context: Tensor, readers: Tensor, after: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """As in `TokenModel`."""
        outputs, behind = self.mixer.read_chunk(context, _LABELS, readers, after, cache[0][0])
        return outputs[..., 0], ((behind,),)

    def settings(self) -> dict[str, object]:
        """The constructor's arguments, for saving."""
        return {"ambient_dim": self.ambient_dim, "start": self.start, "state_size": self.state_size}


class GatedLinearAttention(OneLayerAttention):
    """One-layer Mamba with gates of whole tokens, or without them the linear Transformer.

    Args:
        ambient_dim: d.
        gated: whether there are gates; without them attention is a sum over the examples, not a mean.
        start: ``delta``, in (0, 0.2] in the paper: the first d diagonal entries of ``W_B`` and ``W_C`` at the start;
            all others are zero.
        gate_start: ``w`` at the start, ``(d + 1,)``; ``None`` draws it from ``N(0, I/(d + 1))``.
        state_size: m; ``None`` is d + 1. (The paper prints N + 1, which cannot hold the diagonal start when N < d.)
        stream: of ``w``.
        dtype: of the parameters and of all computation.

    Raises:
        InputError: for sizes, ``start`` or ``gate_start`` out of range; for prompts of another dimension; when
            predicting, for numbers that are not finite.
    """

    def __init__(
        self,
        ambient_dim: int,
        *,
        gated: bool = True,
        start: float = 0.2,
        gate_start: Tensor | Sequence[float] | None = None,
        state_size: int | None = None,
        stream: Stream = Stream(0),
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__("gated" if gated else "linear", ambient_dim, start, state_size, dtype)
        self.gated = bool(gated)
        if isinstance(self.mixer, GatedTokenMixer):
            fill_gate(self.mixer, gate_start, stream)
        elif gate_start is not None:
            raise InputError("gate_start is given for a model without gates; leave it out, or set gated=True")

    @property
    def w(self) -> nn.Parameter | None:
        """``(D,)``, what the gate looks at; ``None`` without gates."""
        return self.mixer.w if isinstance(self.mixer, GatedTokenMixer) else None

    @property
    def name(self) -> str:
        """As legends show it."""
        return "one-layer Mamba (gated linear attention)" if self.gated else "one-layer linear Transformer"

    def settings(self) -> dict[str, object]:
        """Return the constructor's arguments, for saving."""
        return {**super().settings(), "gated": self.gated}


class SoftmaxAttention(OneLayerAttention):
    """One layer of softmax attention: ``F = sum_i softmax_i(p_i' W_B' W_C p_q) y_i``.

    Args and errors as for `GatedLinearAttention`.
    """

    def __init__(
        self,
        ambient_dim: int,
        *,
        start: float = 0.2,
        state_size: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__("softmax", ambient_dim, start, state_size, dtype)

    @property
    def name(self) -> str:
        """As legends show it."""
        return "one-layer softmax attention"


def check_sizes(ambient_dim: int, state_size: int | None, depth: int = 1) -> tuple[int, int]:
    """d and m; raises `InputError` for what is out of range or does not fit this machine's memory."""
    ambient_dim = check_integer("ambient_dim", ambient_dim, 1, 4096)
    size = ambient_dim + 1 if state_size is None else check_integer("state_size", state_size, 1, 65536)
    numbers = float(depth) * (ambient_dim + 1) * (2 * size + ambient_dim + 1)
    check_memory(f"attention of dimension {ambient_dim}, state size {size} and depth {depth}", 8 * numbers)
    return ambient_dim, size


def check_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return ``dtype``; raise `InputError` for what is no floating point type."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise InputError(f"dtype is {dtype!r}; expected a floating point type such as torch.float32")
    return dtype


@torch.no_grad()
def fill_gate(mixer: GatedTokenMixer, gate_start: Tensor | Sequence[float] | None, stream: Stream) -> None:
    """``w`` as given, or drawn from ``N(0, I/D)``."""
    size = mixer.w.shape[0]
    if gate_start is None:
        drawn = torch.randn(size, generator=stream.child("gate").at(0), dtype=torch.float64)
        mixer.w.copy_(drawn / size**0.5)
        return
    try:
        values = torch.as_tensor(gate_start, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"gate_start is {gate_start!r}; expected {size} numbers") from None
    if tuple(values.shape) != (size,) or not bool(torch.isfinite(values).all()):
        raise InputError(f"gate_start has shape {tuple(values.shape)}; expected {size} finite numbers")
    mixer.w.copy_(values)
