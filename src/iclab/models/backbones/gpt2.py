"""GPT-2 as a backbone: the Transformer that state space models are compared with.

Shapes: B prompts, L tokens, Q branches, M width, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from iclab.errors import InputError, check_flag, check_integer, check_positive
from iclab.models.backbones.activations import check_activation
from iclab.models.backbones.backbone import at_least, check_length, check_size, check_tokens
from iclab.models.backbones.chunked import ChunkedBackbone, of_layers
from iclab.models.backbones.gpt2_block import INITIAL_STD, Block
from iclab.models.backbones.rotary import Rotation, rotation
from iclab.models.cache import Cache, Entries, Entry

POSITIONS = ("learned", "none", "rotary")


class GPT2(ChunkedBackbone):
    """A stack of GPT-2 blocks on given token vectors, ``(B, L, width) -> (B, L, width)``, causal, without dropout.

    Args:
        width: M.
        depth: number of blocks.
        heads: H; must divide the width (``rotary``: into an even size).
        max_positions: length of the table of ``learned`` positions; the other kinds have no limit.
        positions: ``learned`` (GPT-2's own), ``none`` (order is known through the causal mask alone, and the model can
            be asked about prompts longer than any it was trained on) or ``rotary``.
        norm_eps: added to variances in the layer norms.
        initial_std: of the weights of the projections. GPT-2's 0.02 is small for narrow models: at width 64 it is a
            sixth of ``1/sqrt(width)``, and training on single-index prompts stays at the zero predictor for thousands
            of steps.
        inner_width: of the two-layer networks; ``None`` takes 4 M.
        activation: of these networks, one of `ACTIVATIONS` of `activations`; ``gelu_new`` is the tanh form of
            gelu.
        scale_attention: divide products of queries and keys by ``sqrt(M/H)``.
        scale_attention_by_layer: divide them by the number of the layer, 1 for the first.

    Weights start at ``N(0, initial_std^2)``, those that write into the residual stream divided by ``sqrt(2 depth)``,
    learned positions at ``N(0, 0.02^2)``, biases at zero.

    On equal weights it agrees with transformers' ``GPT2Model`` (`iclab.models.from_transformers`).

    Raises:
        InputError: for sizes out of range, weights beyond this machine's memory, sequences beyond ``max_positions``.
    """

    def __init__(
        self,
        width: int,
        depth: int,
        *,
        heads: int,
        max_positions: int = 1024,
        positions: str = "learned",
        norm_eps: float = 1e-5,
        initial_std: float = INITIAL_STD,
        inner_width: int | None = None,
        activation: str = "gelu_new",
        scale_attention: bool = True,
        scale_attention_by_layer: bool = False,
    ) -> None:
        super().__init__()
        self.width, self.depth = check_integer("width", width, 1), check_integer("depth", depth, 1, 1000)
        self.heads = check_integer("heads", heads, 1)
        if self.width % self.heads:
            raise InputError(f"the width {width} is no multiple of heads = {heads}; choose heads that divide it")
        if positions not in POSITIONS:
            raise InputError(f"positions are {positions!r}; expected one of {', '.join(POSITIONS)}")
        self.positions = positions
        self.head_size = self.width // self.heads
        if positions == "rotary" and self.head_size % 2:
            raise InputError(f"heads of size {self.head_size} cannot be rotated in pairs; choose an even width / heads")
        self.max_positions = check_integer("max_positions", max_positions, 1, 10_000_000)
        self.norm_eps = check_positive("norm_eps", norm_eps)
        self.initial_std = check_positive("initial_std", initial_std)
        self.inner_width = 4 * self.width if inner_width is None else check_integer("inner_width", inner_width, 1)
        self.activation = check_activation(activation)
        self.scale_attention = check_flag("scale_attention", scale_attention)
        self.scale_attention_by_layer = check_flag("scale_attention_by_layer", scale_attention_by_layer)
        table = self.max_positions * self.width if positions == "learned" else 0
        block = self.width * (4.0 * self.width + 2 * self.inner_width)
        check_size("GPT-2", self.width, self.depth, self.depth * block + table)
        if positions == "learned":
            self.wpe = nn.Embedding(self.max_positions, self.width)
            nn.init.normal_(self.wpe.weight, std=INITIAL_STD)
        self.h = nn.ModuleList(self._block(layer) for layer in range(self.depth))
        self.ln_f = nn.LayerNorm(self.width, eps=self.norm_eps)

    def _block(self, layer: int) -> Block:
        scale = self.head_size**-0.5 if self.scale_attention else 1.0
        if self.scale_attention_by_layer:
            scale /= layer + 1
        return Block(
            self.width,
            self.heads,
            self.depth,
            self.norm_eps,
            self.initial_std,
            self.inner_width,
            self.activation,
            None if self.scale_attention and not self.scale_attention_by_layer else scale,
        )

    @property
    def name(self) -> str:
        """As legends show it."""
        return f"GPT-2 ({self.depth} layers, width {self.width}, {self.heads} heads, {self.positions} positions)"

    @property
    def max_length(self) -> int | None:
        """The longest sequence, or ``None`` where any length will do."""
        return self.max_positions if self.positions == "learned" else None

    def settings(self) -> dict[str, object]:
        """Return the constructor's arguments, for saving.

        Options of later versions are in it where they are not at their defaults, so that a description from before
        equals one that leaves them alone.
        """
        options = {
            "inner_width": (self.inner_width, 4 * self.width),
            "activation": (self.activation, "gelu_new"),
            "scale_attention": (self.scale_attention, True),
            "scale_attention_by_layer": (self.scale_attention_by_layer, False),
        }
        return {
            "width": self.width,
            "depth": self.depth,
            "heads": self.heads,
            "max_positions": self.max_positions,
            "positions": self.positions,
            "norm_eps": self.norm_eps,
            "initial_std": self.initial_std,
            **{name: value for name, (value, default) in options.items() if value != default},
        }

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens ``(B, L, M)`` to outputs ``(B, L, M)``; output t depends on tokens up to t.

        Raises:
            InputError: for tokens of another shape, and more of them than there are positions.
        """
        check_tokens(x, self.width)
        check_length(x.shape[1], self.max_length)
        x, turn = self._place(x, torch.arange(x.shape[1], device=x.device))
        for block in self._blocks():
            x = block(x, turn)[0]
        return self.ln_f(x)

    def cache_entries(self) -> Entries:
        """Describe what each layer carries: keys and values ``(B, H, L, M/H)``.

        They are in the dtype of the weights under autocast too.
        """
        entry = Entry((self.heads, None, self.head_size), self.ln_f.weight.dtype)
        return [(entry, entry)] * self.depth

    def last_norm(self) -> nn.Module:
        """Return ``ln_f``."""
        return self.ln_f

    def _chunk(self, x: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        before = _num_tokens(cache)
        length = before + x.shape[1]
        check_length(length, self.max_length)
        x, turn = self._place(x, torch.arange(before, length, device=x.device))
        mask = _causal(x, before)
        grown = []
        for block, old in zip(self._blocks(), of_layers(cache), strict=False):
            x, keys, values = block(x, turn, old, mask)
            grown.append(self._kept(keys, values))
        return self.ln_f(x), tuple(grown)

    def _chunk_with_branches(
        self, x: Tensor, queries: Tensor, after: Sequence[int], cache: Cache | None
    ) -> tuple[Tensor, Tensor, Cache]:
        """One pass over the chunk, with the queries behind a mask over all tokens and themselves."""
        before = _num_tokens(cache)
        length = before + x.shape[1]
        check_length(max(length, before + max(after) + 1), self.max_length)
        behind = before + torch.tensor(after, device=x.device)
        seen = torch.arange(length, device=x.device) < behind[:, None]
        query_mask = torch.cat([seen, torch.eye(len(after), dtype=torch.bool, device=x.device)], 1)
        x, turn = self._place(x, torch.arange(before, length, device=x.device))
        queries, query_turn = self._place(queries, behind)
        if x.shape[1] == 0 and cache is None:
            cache = self.initial_cache(len(x))
        mask = _causal(x, before)
        grown = []
        for block, old in zip(self._blocks(), of_layers(cache), strict=False):
            if x.shape[1] or old is None:
                x, keys, values = block(x, turn, old, mask)
            else:
                keys, values = old
            queries = block(queries, query_turn, (keys, values), query_mask)[0]
            grown.append(self._kept(keys, values))
        return self.ln_f(x), self.ln_f(queries), tuple(grown)

    def _kept(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """What is carried on: not views of the projections, which hold the queries' too."""
        dtype = self.ln_f.weight.dtype
        return keys.to(dtype).contiguous(), values.to(dtype).contiguous()

    def _place(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Rotation | None]:
        """Tokens with their learned positions added, and the angles of rotary ones."""
        x = at_least(x, self.ln_f.weight)
        if self.positions == "learned":
            return x + F.embedding(positions, self.wpe.weight), None
        return x, rotation(positions, self.head_size, x.dtype) if self.positions == "rotary" else None

    def _blocks(self) -> Iterator[Block]:
        return iter(self.h)  # type: ignore[return-value]


def _num_tokens(cache: Cache | None) -> int:
    """Tokens that a checked cache has seen."""
    return 0 if cache is None else cache[0][0].shape[2]


def _causal(x: Tensor, before: int) -> Tensor | None:
    """``(T, before + T)``: what each of T tokens behind others sees; ``None`` where all, or where nothing is before."""
    length = x.shape[1]
    if before == 0 or length == 1:
        return None
    return torch.ones(length, before + length, dtype=torch.bool, device=x.device).tril(before)
