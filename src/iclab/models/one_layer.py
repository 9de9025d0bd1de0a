"""The one-layer Mamba of arXiv 2510.12026: a selective state space layer with a label gate, and a ReLU head on top.

The label channel read at a query is ``M = sum_j G_j y_j <phi(x_j), gamma * phi(x)>`` and the output is
``f = sum_k a2_k relu(v_k M/(N scale) + a1_k)``. All of a prompt enters through the state
``S = (1/N) sum_j G_j y_j phi(x_j)``, so with c_j = G_j y_j a prompt costs one product ``X' diag(c) X``.

Shapes: B prompts, N examples, Q queries, d ambient, D embedding, M width of the head (``width``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from iclab.errors import InputError, check_integer, check_positive
from iclab.models.embedding import embedding_dim, pair_indices
from iclab.models.label_gate import LabelGate
from iclab.models.prefixes import read_prefixes
from iclab.prompts import Prompts, Stream
from iclab.prompts.batch import check_finite


@dataclass(frozen=True)
class StateBlocks:
    """``S`` of each prompt, by Hermite degree, in units of ``s(0)`` (``sigmoid(b)`` for the sigmoid gates).

    Attributes:
        degree0: ``(B,)``.
        degree1: ``(B, d)``.
        degree2: ``(B, d, d)``, symmetric, ``(1/N) sum_j G_j y_j (x_j x_j' - I)/sqrt 2``: its Frobenius norm is the norm
            of the block, and its product with ``beta beta'`` the coefficient of ``h_2(<beta, x>)``.
            Empty ``(B, 0, 0)`` for the identity embedding.
    """

    degree0: Tensor
    degree1: Tensor
    degree2: Tensor

    @staticmethod
    def cat(states: Sequence[StateBlocks]) -> StateBlocks:
        """Join along the prompts."""
        return StateBlocks(
            torch.cat([s.degree0 for s in states]),
            torch.cat([s.degree1 for s in states]),
            torch.cat([s.degree2 for s in states]),
        )


class OneLayerMamba(nn.Module):
    """One-layer Mamba with a label gate.

    Args:
        ambient_dim: d.
        width: m, width of the head.
        embedding: ``hermite2`` (the paper's) or ``identity``.
        gate: ``mamba`` (zero-order hold: gain ``sigmoid(u)``, decay ``1 - sigmoid(u)``, ``u = y/rho + b``),
            ``no_decay`` (the gain alone), ``exp`` (exponential tilt, as in softmax attention) or ``linear`` (no gate).
        rho: temperature of the label in the gate, > 0.
        b: bias of the gate; ``None`` takes ``-bias_scale * log d`` as in the paper.
        bias_scale: ``C_b`` of that default; the paper leaves its value open.
        clip: labels are clipped to ``[-clip, clip]`` before the layer. Off by default: it hides the finite-size limit
            of heavy-tailed labels. Named in results when on.
        dtype: of the parameters and of all computation.

    ``gamma`` starts at one on every coordinate, the head at zero; `iclab.pretraining` fits both.
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
        self.bias = -float(bias_scale) * math.log(max(ambient_dim, 2)) if b is None else float(b)
        self.label_gate = LabelGate(gate, float(rho), self.bias)
        self.clip = None if clip is None else check_positive("clip", clip)
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
        """The constructor's arguments, for saving."""
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
        """``(B, N)``: ``log(G_j / s(0))`` of every example, as the query sees it. Logs, since weights underflow."""
        return self.label_gate.log_weights(self._labels(prompts))

    def features(self, prompts: Prompts, *, scratch: Tensor | None = None) -> StateBlocks:
        """The state ``S`` of each prompt, by degree. Cost O(N d^2) a prompt in one matrix product; memory O(d^2).

        ``scratch`` is an optional buffer ``(B, N, d)`` that the weighted inputs overwrite; loops over many batches save
        the allocation with it. Without gradients only.
        """
        self._check_dimension(prompts)
        labels = self._labels(prompts)
        x = prompts.examples.to(self.gamma)
        c = torch.exp(self.label_gate.log_weights(labels)) * labels / max(prompts.num_examples, 1)
        degree0 = c.sum(-1)
        if self.embedding == "identity":
            first = (x.transpose(1, 2) @ c[..., None]).squeeze(-1)
            return StateBlocks(torch.zeros_like(degree0), first, x.new_zeros(len(x), 0, 0))
        weighted = x * c[..., None] if scratch is None else torch.mul(x, c[..., None], out=scratch[: len(x)])
        second = torch.bmm(x.transpose(1, 2), weighted)
        second.diagonal(dim1=1, dim2=2).sub_(degree0[:, None])
        return StateBlocks(degree0, weighted.sum(1), second.mul_(2**-0.5))

    def read(self, state: StateBlocks, queries: Tensor) -> Tensor:
        """``(B, Q)``: ``M/N = <S, gamma * phi(x)>`` at queries ``(B, Q, d)``, in units of ``s(0)``."""
        gamma0, gamma1, gamma2 = self.gamma_blocks()
        value = torch.einsum("bqd,bd->bq", queries, state.degree1 * gamma1)
        if self.embedding == "identity":
            return value
        matrix = state.degree2 * gamma2 * 2**-0.5
        quadratic = ((queries @ matrix) * queries).sum(-1)
        trace = matrix.diagonal(dim1=1, dim2=2).sum(-1)
        return value + quadratic + (state.degree0 * gamma0 - trace)[:, None]

    def gamma_blocks(self) -> tuple[Tensor, Tensor, Tensor]:
        """``gamma`` as a scalar, a vector ``(d,)`` and a symmetric matrix ``(d, d)``."""
        d = self.ambient_dim
        if self.embedding == "identity":
            return self.gamma.new_zeros(()), self.gamma, self.gamma.new_zeros(0, 0)
        rows, columns = pair_indices(d)
        upper = torch.zeros(d, d, dtype=self.gamma.dtype, device=self.gamma.device)
        upper = upper.index_put((rows, columns), self.gamma[1 + 2 * d :])
        return self.gamma[0], self.gamma[1 : 1 + d], upper + upper.T + torch.diag(self.gamma[1 + d : 1 + 2 * d])

    def head(self, m: Tensor) -> Tensor:
        """``f(m) = sum_k a2_k relu(v_k m/scale + a1_k)``, elementwise."""
        return self.head_features(m) @ self.a2

    def head_features(self, m: Tensor) -> Tensor:
        """``(..., M)``: the ReLU features ``relu(v_k m/scale + a1_k)``."""
        return torch.relu((m / self.scale)[..., None] * self.v + self.a1)

    def forward(self, prompts: Prompts) -> Tensor:
        """``(B, Q)``: outputs at the queries, with gradients."""
        self._check(prompts)
        return self.head(self.read(self.features(prompts), prompts.queries.to(self.gamma)))

    @torch.no_grad()
    def predict(self, prompts: Prompts) -> Tensor:
        """``(B, Q)``: predictions at the queries, in the dtype of the prompts."""
        parts = [self.forward(prompts[i : i + 64]) for i in range(0, max(prompts.batch_size, 1), 64)]
        return torch.cat(parts).to(prompts.inputs.dtype)

    @torch.no_grad()
    def predict_prefixes(self, prompts: Prompts) -> Tensor:
        """``(B, N)``: column k predicts example k from the k examples before it; one pass over the prompt."""
        self._check(prompts)
        gamma, labels, x = self.gamma_blocks(), self._labels(prompts), prompts.examples.to(self.gamma)
        parts = [
            self.head(read_prefixes(self.label_gate, gamma, x[i : i + 64], labels[i : i + 64]))
            for i in range(0, max(prompts.batch_size, 1), 64)
        ]
        return torch.cat(parts).to(prompts.inputs.dtype)

    def _labels(self, prompts: Prompts) -> Tensor:
        labels = prompts.example_labels.to(self.gamma)
        return labels if self.clip is None else labels.clamp(-self.clip, self.clip)

    def _check(self, prompts: Prompts) -> None:
        self._check_dimension(prompts)
        check_finite("a context label", prompts.example_labels)
        check_finite("an input", prompts.inputs)

    def _check_dimension(self, prompts: Prompts) -> None:
        if prompts.ambient_dim != self.ambient_dim:
            raise InputError(
                f"the prompts have dimension {prompts.ambient_dim}; this model was built for {self.ambient_dim}"
            )
