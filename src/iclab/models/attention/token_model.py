"""What the attention models on tokens ``(x, y)`` share: prompts to tokens, checks, predictions.

Shapes: B prompts, N examples, Q queries, R readers, d ambient, D = d + 1 size of a token.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, overload

import torch
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.memory import memory_advice
from iclab.models.attention.attention import Attention
from iclab.models.cache import Cache, Entries, check_cache, initial_cache
from iclab.models.layouts import context_tokens, query_tokens
from iclab.prompts import Prompts
from iclab.prompts.values import check_finite, is_finite

_NUMBERS_AT_ONCE = 1 << 21  # of tokens or of attention (readers x examples) when predicting: bounds memory


class TokenModel(nn.Module, ABC):
    """A model that reads tokens ``(x, y)`` and answers queries ``(x, 0)``, each alone behind the context.

    Labels of queries are never looked at. Its sign is the class: `predict` gives the number itself.
    """

    ambient_dim: int

    @property
    @abstractmethod
    def name(self) -> str:
        """As legends show it."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """Return the constructor's arguments, for saving."""

    @abstractmethod
    def read(self, context: Tensor, queries: Tensor, after: Tensor | None) -> tuple[Tensor, Attention]:
        """Answer queries from the tokens of the context.

        Args:
            context: tokens ``(B, N, D)``.
            queries: tokens ``(B, R, D)``.
            after: query r sees the first ``after[r]`` tokens of the context, or all of them for ``None``.

        Returns:
            Outputs ``(B, R)`` and the `Attention` that they rest on.
        """

    @abstractmethod
    def cache_entries(self) -> Entries:
        """Describe what `chunk` carries for each layer."""

    @abstractmethod
    def read_chunk(self, context: Tensor, readers: Tensor, after: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Answer queries as `read` does, behind the chunks that left ``cache``.

        Args:
            context: tokens ``(B, N, D)`` of this chunk.
            readers: tokens ``(B, R, D)``.
            after: reader r sees the first ``after[r]`` tokens of this chunk, and all of those before it.
            cache: what the chunk before returned.

        Returns:
            Outputs ``(B, R)``, and the cache behind this chunk.
        """

    def chunk(self, prompts: Prompts, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """Read the next examples of B prompts, and answer queries behind them, as `iclab.models.InContextModel.chunk`.

        Args:
            prompts: N more examples of each prompt and Q queries; both may be 0.
            cache: what the chunk before returned; ``None`` at the beginning.

        Returns:
            ``(B, N + Q)``, with gradients: column k < N answers the input of example k of the chunk from all examples
            before it, the others answer the queries. And the cache behind the examples: running sums of linear and
            gated attention, all tokens for softmax attention.

        Raises:
            InputError: for prompts of another dimension, and a cache that is not of these prompts or of this model.
        """
        context, _ = self.tokens(prompts)
        if cache is None:
            cache = initial_cache(self.cache_entries(), prompts.batch_size, context.device)
        check_cache(context, cache, self.cache_entries())
        count = prompts.num_examples
        after = torch.tensor([*range(count), *[count] * prompts.num_queries], dtype=torch.long, device=context.device)
        return self.read_chunk(context, query_tokens("concatenated", self._cast(prompts.inputs)), after, cache)

    def gate_parameters(self) -> list[nn.Parameter]:
        """Return the weights inside gates, which training may give a step size of their own."""
        return [parameter for name, parameter in self.named_parameters() if name.rpartition(".")[2] == "w"]

    def num_parameters(self) -> int:
        """Count the numbers in all parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def input_dim(self) -> int:
        """d."""
        return self.ambient_dim

    @overload
    def forward(self, prompts: Prompts, return_attention: Literal[False] = ...) -> Tensor: ...

    @overload
    def forward(self, prompts: Prompts, return_attention: Literal[True]) -> tuple[Tensor, Attention]: ...

    def forward(self, prompts: Prompts, return_attention: bool = False) -> Tensor | tuple[Tensor, Attention]:
        """Compute the outputs at the queries, with gradients.

        Args:
            prompts: N examples and Q queries of each of B prompts.
            return_attention: also return the `Attention`.

        Returns:
            ``(B, Q)``; with ``return_attention`` also the `Attention`.

        Raises:
            InputError: for prompts of another dimension.
        """
        outputs, attention = self.read(*self.tokens(prompts), None)
        return (outputs, attention) if return_attention else outputs

    def queries(self, prompts: Prompts) -> Tensor:
        """Answer the queries as `forward` does, ``(B, Q)``."""
        return self.read(*self.tokens(prompts), None)[0]

    def prefixes(self, prompts: Prompts) -> Tensor:
        """Answer the input of each example from the examples before it, with gradients.

        Returns:
            ``(B, N)``, where column k answers the input of example k from the k examples before it.
        """
        context, _ = self.tokens(prompts)
        inputs = query_tokens("concatenated", self._cast(prompts.examples))
        return self.read(context, inputs, torch.arange(prompts.num_examples, device=context.device))[0]

    def tokens(self, prompts: Prompts) -> tuple[Tensor, Tensor]:
        """Return the tokens of the context ``(B, N, D)`` and of the queries ``(B, Q, D)``, in the model's dtype.

        Raises:
            InputError: for prompts of another dimension.
        """
        if prompts.ambient_dim != self.ambient_dim:
            raise InputError(
                f"the prompts have dimension {prompts.ambient_dim}; this model was built for {self.ambient_dim}"
            )
        context = context_tokens("concatenated", self._cast(prompts.examples), self._cast(prompts.example_labels))
        return context, query_tokens("concatenated", self._cast(prompts.queries))

    @torch.no_grad()
    def predict(self, prompts: Prompts) -> Tensor:
        """Predict at the queries, ``(B, Q)`` in the dtype of the prompts; no gradients.

        Raises:
            InputError: for numbers that are not finite in prompts, weights or outputs, and memory that does not
                suffice.
        """
        return self._in_pieces(prompts, prompts.num_queries, self.queries)

    @torch.no_grad()
    def predict_prefixes(self, prompts: Prompts) -> Tensor:
        """Predict each example from those before it; no gradients.

        Returns:
            ``(B, N)`` in the dtype of the prompts, where column k predicts example k from the k examples before it.

        Raises:
            InputError: as `predict`.
        """
        return self._in_pieces(prompts, prompts.num_examples, self.prefixes)

    def _in_pieces(self, prompts: Prompts, asked: int, answer: Callable[[Prompts], Tensor]) -> Tensor:
        check_finite("a context label", prompts.example_labels)
        check_finite("an input", prompts.inputs)
        length, readers = prompts.num_examples, self._readers(prompts.num_examples, asked)
        largest = max(1, readers * length, (readers + length) * (self.ambient_dim + 1))
        rows = max(1, _NUMBERS_AT_ONCE // largest)
        starts = range(0, max(prompts.batch_size, 1), rows)
        advice = f"lower the number of examples ({length}) or queries ({prompts.num_queries})"
        with memory_advice(f"predicting with {self.name}", next(self.parameters()).device, advice):
            outputs = torch.cat([answer(prompts[start : start + rows]) for start in starts])
        if is_finite(outputs):
            return outputs.to(prompts.inputs.dtype)
        if not all(is_finite(parameter) for parameter in self.parameters()):
            raise InputError("the model has weights that are not finite; train it again with a smaller learning rate")
        raise InputError(
            f"{self.name} predicts numbers that are not finite, for inputs up to "
            f"{float(prompts.inputs.abs().max()):.3g} in size; scale inputs and labels, or use float64"
        )

    def _readers(self, num_examples: int, asked: int) -> int:
        """Tokens that read at once for ``asked`` queries."""
        return asked

    def _cast(self, values: Tensor) -> Tensor:
        return values.to(next(self.parameters()))
