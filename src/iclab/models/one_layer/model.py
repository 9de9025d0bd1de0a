"""The one-layer Mamba of arXiv 2510.12026: a selective state space layer with a label gate, and a ReLU head on top.

The label channel read at a query is ``M = sum_j G_j y_j <phi(x_j), gamma * phi(x)>`` and the output is
``f = sum_k a2_k relu(v_k M/(N scale) + a1_k)``. All of a prompt enters through the state
``S = (1/N) sum_j G_j y_j phi(x_j)``, so with c_j = G_j y_j a prompt costs one product ``X' diag(c) X``.

Shapes: B prompts, N examples, Q queries, d ambient, D embedding, M width of the head (``width``).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from iclab.errors import InputError, check_integer, check_positive
from iclab.memory import check_memory
from iclab.models.cache import Cache, Entries, Entry, check_cache, initial_cache
from iclab.models.one_layer.embedding import embedding_dim, pair_indices
from iclab.models.one_layer.label_gate import LabelGate
from iclab.models.one_layer.prefixes import Carry, read_prefixes
from iclab.models.one_layer.state_blocks import StateBlocks
from iclab.ops import gated_state
from iclab.parallel import map_in_order
from iclab.prompts import CHUNK, Prompts, Stream
from iclab.prompts.values import check_finite, is_finite
from iclab.scratch import Scratch

_weighted = Scratch()


class OneLayerMamba(nn.Module):
    """One-layer Mamba with a label gate.

    Args:
        ambient_dim: d.
        width: m, width of the head. Only its parameters are weighed against the machine's memory here; Stage II of
            `iclab.pretraining.two_stage` needs several ``(m, m)`` float64 matrices on top.
        embedding: ``hermite2`` (the paper's) or ``identity``.
        gate: ``mamba`` (zero-order hold: gain ``sigmoid(u)``, decay ``1 - sigmoid(u)``, ``u = y/rho + b``),
            ``no_decay`` (the gain alone), ``exp`` (exponential tilt, as in softmax attention) or ``linear`` (no gate).
        rho: temperature of the label in the gate, > 0.
        b: bias of the gate; ``None`` takes ``-bias_scale * log d`` as in the paper.
        bias_scale: ``C_b`` of that default, > 0; the paper leaves its value open.
        clip: labels are clipped to ``[-clip, clip]`` before the layer. Off by default: it hides the finite-size limit
            of heavy-tailed labels. Named in results when on.
        dtype: of the parameters and of all computation.

    ``gamma`` starts at one on every coordinate, the head at zero; `iclab.pretraining` fits both.

    Raises:
        InputError: for sizes or gate settings out of range, and parameters that do not fit this machine's memory; when
            predicting, for numbers that leave the range of ``dtype`` on the way.
    """

    gamma: nn.Parameter
    a1: Tensor
    v: Tensor
    scale: Tensor

    def __init__(
        self,
        ambient_dim: int,
        width: int = 512,
        *,
        embedding: str = "hermite2",
        gate: str = "mamba",
        rho: float = 0.5,
        b: float | None = None,
        bias_scale: float = 3.0,
        clip: float | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.ambient_dim = check_integer("ambient_dim", ambient_dim, 1, 4096)
        self.width = check_integer("width", width, 1, 10_000_000)
        self.embedding = embedding
        bias_scale = check_positive("bias_scale", bias_scale)
        self.bias = -bias_scale * math.log(max(self.ambient_dim, 2)) if b is None else _number("b", b)
        self.label_gate = LabelGate(gate, check_positive("rho", rho), self.bias)
        self.clip = None if clip is None else check_positive("clip", clip)
        if dtype not in (torch.float32, torch.float64):
            raise InputError(f"dtype is {dtype!r}; expected torch.float32 or torch.float64")
        parameters = embedding_dim(embedding, self.ambient_dim) + 3 * self.width
        check_memory(f"a model of dimension {self.ambient_dim} and width {self.width}", parameters * dtype.itemsize)
        self.gamma = nn.Parameter(torch.ones(embedding_dim(embedding, self.ambient_dim), dtype=dtype))
        self.a2 = nn.Parameter(torch.zeros(self.width, dtype=dtype))
        self.register_buffer("a1", torch.zeros(self.width, dtype=dtype))
        self.register_buffer("v", torch.ones(self.width, dtype=dtype))
        self.register_buffer("scale", torch.ones((), dtype=dtype))

    @property
    def name(self) -> str:
        """Gate, embedding and settings, as legends show them."""
        gate = self.label_gate.gate
        text = "linear gate" if gate == "linear" else f"{gate} gate, rho {self.label_gate.rho:g}, b {self.bias:.3g}"
        clip = "" if self.clip is None else f", labels clipped at {self.clip:g}"
        return f"one-layer Mamba ({text}, {self.embedding}{clip})"

    def settings(self) -> dict[str, object]:
        """Return the constructor's arguments, for saving."""
        return {
            "ambient_dim": self.ambient_dim,
            "width": self.width,
            "embedding": self.embedding,
            "gate": self.label_gate.gate,
            "rho": self.label_gate.rho,
            "b": self.bias,
            "clip": self.clip,
        }

    def draw_head(self, stream: Stream) -> None:
        """Draw ``v ~ Unif{+1, -1}`` and ``a1 ~ Unif[-1, 1]`` (step 2 of Algorithm 1), in place."""
        generator = stream.at(0)
        signs = torch.randint(2, (self.width,), generator=generator)
        biases = torch.rand(self.width, generator=generator, dtype=torch.float64)
        self.v.copy_(2 * signs - 1)
        self.a1.copy_(2 * biases - 1)

    def gates(self, prompts: Prompts) -> Tensor:
        """Return ``log(G_j / s(0))`` of every example as the query sees it, ``(B, N)``.

        Logs, since weights underflow.
        """
        return self.label_gate.log_weights(self._labels(prompts))

    def features(self, prompts: Prompts) -> StateBlocks:
        """Compute the state ``S`` of each prompt, by degree.

        Cost O(N d^2), memory O(d^2) a prompt; prompts share the threads. The compiled core does it where it serves,
        else products of matrices, a few prompts at a time: their weighted inputs then stay in a core's cache.
        """
        self._check_dimension(prompts)
        x, c = prompts.examples, self.label_gate.weighted_labels(self._labels(prompts))
        if x.dtype == c.dtype and self._compiles(x, c):
            return StateBlocks(*gated_state.hermite_state(x, c))
        if prompts.batch_size <= CHUNK:
            return self._state(x.to(c), c)

        def piece(number: int) -> StateBlocks:
            part = slice(number * CHUNK, (number + 1) * CHUNK)
            return self._state(x[part].to(c), c[part])

        return StateBlocks.cat(list(map_in_order(piece, -(-prompts.batch_size // CHUNK))))

    def _compiles(self, x: Tensor, c: Tensor) -> bool:
        return self.embedding == "hermite2" and self.ambient_dim <= gated_state.LARGEST_DIM and gated_state.serves(x, c)

    def _state(self, x: Tensor, c: Tensor) -> StateBlocks:
        if self._compiles(x, c):
            return StateBlocks(*gated_state.hermite_state(x, c))
        degree0 = c.sum(-1)
        if self.embedding == "identity":
            first = (x.transpose(1, 2) @ c[..., None]).squeeze(-1)
            return StateBlocks(torch.zeros_like(degree0), first, x.new_zeros(len(x), 0, 0))
        weighted = torch.mul(x, c[..., None], out=_weighted.take(x.shape, x.dtype) if gated_state.plain(x, c) else None)
        second = torch.bmm(x.transpose(1, 2), weighted)
        second.diagonal(dim1=1, dim2=2).sub_(degree0[:, None])
        return StateBlocks(degree0, weighted.sum(1), second.mul_(2**-0.5))

    def read(self, state: StateBlocks, queries: Tensor) -> Tensor:
        """Read the state at queries: ``M/N = <S, gamma * phi(x)>``.

        Args:
            state: of B prompts, from `features`.
            queries: ``(B, Q, d)``.

        Returns:
            ``(B, Q)``, in units of ``s(0)``.
        """
        gamma0, gamma1, gamma2 = self.gamma_blocks()
        value = torch.einsum("bqd,bd->bq", queries, state.degree1 * gamma1)
        if self.embedding == "identity":
            return value
        matrix = state.degree2 * gamma2 * 2**-0.5
        quadratic = ((queries @ matrix) * queries).sum(-1)
        trace = matrix.diagonal(dim1=1, dim2=2).sum(-1)
        return value + quadratic + (state.degree0 * gamma0 - trace)[:, None]

    def gamma_blocks(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``gamma`` as a scalar, a vector ``(d,)`` and a symmetric matrix ``(d, d)``."""
        d = self.ambient_dim
        if self.embedding == "identity":
            return self.gamma.new_zeros(()), self.gamma, self.gamma.new_zeros(0, 0)
        rows, columns = pair_indices(d)
        upper = torch.zeros(d, d, dtype=self.gamma.dtype, device=self.gamma.device)
        upper = upper.index_put((rows, columns), self.gamma[1 + 2 * d :])
        return self.gamma[0], self.gamma[1 : 1 + d], upper + upper.T + torch.diag(self.gamma[1 + d : 1 + 2 * d])

    def head(self, m: Tensor) -> Tensor:
        """Compute ``f(m) = sum_k a2_k relu(v_k m/scale + a1_k)``, elementwise."""
        return self.head_features(m) @ self.a2

    def head_features(self, m: Tensor) -> Tensor:
        """Compute the ReLU features ``relu(v_k m/scale + a1_k)``, ``(..., M)``."""
        return torch.relu((m / self.scale)[..., None] * self.v + self.a1)

    def forward(self, prompts: Prompts) -> Tensor:
        """Compute the outputs at the queries, ``(B, Q)``, with gradients."""
        self._check(prompts)
        m = self.read(self.features(prompts), prompts.queries.to(self.gamma))
        return self.head(self._check_range(m, prompts))

    @torch.no_grad()
    def predict(self, prompts: Prompts) -> Tensor:
        """Predict at the queries, ``(B, Q)`` in the dtype of the prompts; no gradients."""
        parts = [self.forward(prompts[i : i + 64]) for i in range(0, max(prompts.batch_size, 1), 64)]
        return self._check_range(torch.cat(parts).to(prompts.inputs.dtype), prompts)

    @torch.no_grad()
    def predict_prefixes(self, prompts: Prompts) -> Tensor:
        """Predict each example from those before it, in one pass over the prompt; no gradients.

        Returns:
            ``(B, N)`` in the dtype of the prompts, where column k predicts example k from the k examples before it.
        """
        self._check(prompts)
        gamma, labels, x = self.gamma_blocks(), self._labels(prompts), prompts.examples.to(self.gamma)
        parts = []
        for i in range(0, max(prompts.batch_size, 1), 64):
            m, _ = read_prefixes(self.label_gate, gamma, x[i : i + 64], labels[i : i + 64])
            parts.append(self.head(self._check_range(m, prompts)))
        return self._check_range(torch.cat(parts).to(prompts.inputs.dtype), prompts)

    def cache_entries(self) -> Entries:
        """Describe what `chunk` carries in its one layer: a `Carry`."""
        d = self.ambient_dim
        shapes = (), (d,), (0 if self.embedding == "identity" else d * d,), ()
        return [tuple(Entry(shape, self.gamma.dtype) for shape in shapes)]

    def chunk(self, prompts: Prompts, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """Read the next examples of B prompts, and answer queries behind them, as `iclab.models.InContextModel.chunk`.

        Args:
            prompts: N more examples of each prompt and Q queries; both may be 0.
            cache: what the chunk before returned; ``None`` at the beginning.

        Returns:
            ``(B, N + Q)``, with gradients: column k < N predicts example k of the chunk from all examples before it,
            the others answer the queries. And the cache behind the examples: sums, and the number of examples.
        """
        self._check(prompts)
        x, labels, count = prompts.inputs.to(self.gamma), self._labels(prompts), prompts.num_examples
        entries, gamma = self.cache_entries(), self.gamma_blocks()
        cache = initial_cache(entries, len(x), x.device) if cache is None else cache
        check_cache(x, cache, entries)
        along, carry = read_prefixes(self.label_gate, gamma, x[:, :count], labels, Carry(*cache[0]))
        m = torch.cat([along, self.read(carry.at_query(self.label_gate), x[:, count:])], 1)
        return self.head(self._check_range(m, prompts)), (tuple(carry),)

    def _labels(self, prompts: Prompts) -> Tensor:
        """Context labels, checked, clipped and converted. It costs one pass over ``(B, N)`` numbers, d times fewer
        than the inputs, so loops over many batches afford it."""
        labels = check_finite("a context label", prompts.example_labels)
        if self.clip is not None:
            # A limit beyond the dtype of the labels clips none of them, and torch refuses it.
            limit = min(self.clip, torch.finfo(labels.dtype).max) if labels.is_floating_point() else self.clip
            labels = labels.clamp(-limit, limit)
        return self._converted("a context label", labels, "scale the labels, give the model a clip")

    def _converted(self, name: str, values: Tensor, advice: str) -> Tensor:
        """``values`` in the model's dtype. Raises `InputError` where it cannot hold one."""
        converted = values.to(self.gamma)
        if converted.dtype != values.dtype and not is_finite(converted):
            index = tuple(int(i) for i in (~torch.isfinite(converted)).nonzero()[0])
            raise InputError(
                f"{name} is {float(values[index]):.6g} at {index}, which {converted.dtype} cannot hold; {advice}, or "
                "build the model with dtype=torch.float64"
            )
        return converted

    def _check(self, prompts: Prompts) -> None:
        self._check_dimension(prompts)
        self._labels(prompts)
        check_finite("an input", prompts.inputs)
        self._converted("an input", prompts.inputs, "scale the inputs")

    def _check_range(self, values: Tensor, prompts: Prompts) -> Tensor:
        """Return ``values``; raise `InputError` where finite prompts led to numbers outside floating point."""
        if is_finite(values.detach()):
            return values
        if not all(is_finite(p.detach()) for p in (*self.parameters(), *self.buffers())):
            raise InputError("the model has weights that are not finite; train it again with a smaller learning rate")
        inputs = float(prompts.inputs.abs().max())
        labels = float(prompts.example_labels.abs().max()) if prompts.num_examples else 0.0
        raise InputError(
            f"the output leaves the range of {values.dtype}: inputs reach {inputs:.3g} and context labels {labels:.3g} "
            "in size; scale them, or use torch.float64 for the model and the prompts"
        )

    def _check_dimension(self, prompts: Prompts) -> None:
        if prompts.ambient_dim != self.ambient_dim:
            raise InputError(
                f"the prompts have dimension {prompts.ambient_dim}; this model was built for {self.ambient_dim}"
            )


def _number(name: str, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"{name} is {value!r}; expected a number") from None
