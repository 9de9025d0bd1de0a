"""A sequence model that learns in context: read-in, backbone, read-out.

Shapes: B prompts, N examples, Q queries, d ambient, L tokens, M width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from iclab.errors import InputError, check_integer
from iclab.memory import memory_advice
from iclab.models.backbones.backbone import (
    ChunkingBackbone,
    branch_by_repetition,
    branching,
    chunk_with_branches_by_copies,
    chunking,
)
from iclab.models.backbones.chunked import ChunkedBackbone
from iclab.models.cache import Cache
from iclab.models.evaluating import evaluating
from iclab.models.layouts import check_layout, context_tokens, query_tokens, token_size, tokens_per_example
from iclab.models.weight_decay import no_decay_names, parameter_groups
from iclab.prompts import Prompts
from iclab.prompts.values import check_finite, is_finite

_TOKENS_AT_ONCE = 16384  # bounds memory when predicting: about 64 KB a token at width 256
_TOKENS_AT_A_TIME = 256  # of a single prompt: the memory of attention is quadratic in it
_BRANCH = 8  # a branch holds a copy of the state: in memory it counts as so many tokens


class InContextModel(nn.Module):
    """Tokens of a prompt through a linear read-in, a causal backbone and a linear read-out to one number a token.

    Args:
        input_dim: d.
        backbone: `Mamba`, `GPT2`, or any ``nn.Module`` with an integer ``width`` that maps ``(B, L, width)`` to
            ``(B, L, width)`` causally. What it has beyond that is used: ``branch`` (else each query costs a pass over
            the context), ``initial_cache`` and ``chunk`` (`chunk`, `state_size`), ``max_length``, ``name``,
            ``settings()``.
        layout: ``interleaved``, ``padded`` or ``concatenated``, see `iclab.models.layouts`.

    Every query is answered from all N examples and from no other query. Labels of queries are never looked at.

    Raises:
        InputError: for a module without a width, an unknown layout; for prompts of another dimension or beyond
            ``max_examples``; when predicting, also for numbers that are not finite and memory that does not suffice.
    """

    def __init__(self, input_dim: int, backbone: nn.Module, *, layout: str = "interleaved") -> None:
        super().__init__()
        self.input_dim = check_integer("input_dim", input_dim, 1, 1_000_000)
        self.layout = check_layout(layout)
        width = getattr(backbone, "width", None)
        if not isinstance(backbone, nn.Module) or not isinstance(width, int):
            raise InputError(
                f"the backbone is a {type(backbone).__name__} of width {width!r}; expected a torch.nn.Module with an "
                "integer attribute width"
            )
        self.read_in = nn.Linear(token_size(layout, self.input_dim), width)
        self.backbone = backbone
        self.read_out = nn.Linear(width, 1)

    @property
    def name(self) -> str:
        """Backbone and layout, as legends show them."""
        return f"{getattr(self.backbone, 'name', type(self.backbone).__name__)}, {self.layout}"

    @property
    def max_examples(self) -> int | None:
        """The longest context, with a query behind it; ``None`` where any length will do."""
        longest: Any = getattr(self.backbone, "max_length", None)
        return None if longest is None else (longest - 1) // tokens_per_example(self.layout)

    def settings(self) -> dict[str, object]:
        """Return what `iclab.models.save_model` writes down beside the weights."""
        describe: Any = getattr(self.backbone, "settings", dict)
        return {
            "input_dim": self.input_dim,
            "layout": self.layout,
            "backbone": {"model": type(self.backbone).__name__, "settings": describe()},
        }

    def num_parameters(self) -> int:
        """Count the numbers in all parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    @torch.no_grad()
    def state_size(self, num_examples: int) -> int:
        """Count the numbers that one prompt carries after ``num_examples`` examples, in the tensors of a real cache.

        Raises:
            InputError: where the backbone cannot be fed in chunks.
        """
        self._check_length(check_integer("num_examples", num_examples, 0))
        backbone = self._chunking()
        cache = backbone.initial_cache(1)
        length = num_examples * tokens_per_example(self.layout)
        tokens = self.read_in.weight.new_zeros(()).expand(1, length, self.read_in.out_features)
        for start in range(0, length, _TOKENS_AT_A_TIME):
            _, cache = backbone.chunk(tokens[:, start : start + _TOKENS_AT_A_TIME], cache)
        return sum(tensor.numel() for layer in cache for tensor in layer)

    def no_decay_names(self) -> frozenset[str]:
        """Return the names of `iclab.models.no_decay_names`."""
        return no_decay_names(self)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, object]]:
        """Return the groups of `iclab.models.parameter_groups`."""
        return parameter_groups(self, weight_decay)

    def forward(self, prompts: Prompts) -> Tensor:
        """Predict along the prompts and at the queries, with gradients.

        Returns:
            ``(B, N + Q)``, where column k < N predicts example k from those before it, and the others answer the
            queries.
        """
        self._check(prompts)
        if prompts.num_queries == 0:
            return self.prefixes(prompts)
        count, inputs = prompts.num_examples, self._cast(prompts.inputs)
        if self.layout == "concatenated":
            return self._ask(self._context(prompts), inputs, [*range(count), *[count] * prompts.num_queries])
        if count == 0:
            return self.queries(prompts)
        context = self._context(prompts)
        queries = self._read_in(query_tokens(self.layout, inputs[:, count:]))
        if prompts.num_queries == 1:
            return self._read_out(self._run(torch.cat([context, queries], 1))[:, ::2])
        if (backbone := branching(self.backbone)) is not None:
            along, answers = backbone.branch(context, queries, [context.shape[1]] * prompts.num_queries)
            return self._read_out(torch.cat([along[:, ::2], answers], 1))
        return torch.cat([self.prefixes(prompts), self.queries(prompts)], 1)

    def prefixes(self, prompts: Prompts) -> Tensor:
        """Predict each example from the examples before it, in one causal pass, with gradients.

        Returns:
            ``(B, N)``, where column k predicts example k from the k examples before it.
        """
        self._check(prompts)
        if prompts.num_examples == 0:
            return self.read_out.weight.new_zeros(prompts.batch_size, 0)
        context = self._context(prompts)
        if self.layout == "concatenated":
            return self._ask(context[:, :-1], self._cast(prompts.examples), range(prompts.num_examples))
        return self._read_out(self._run(context[:, :-1])[:, ::2])

    def queries(self, prompts: Prompts) -> Tensor:
        """Answer the queries, each from all N examples: ``(B, Q)``, with gradients."""
        self._check(prompts)
        if prompts.num_queries == 0:
            return self.read_out.weight.new_zeros(prompts.batch_size, 0)
        context = self._context(prompts)
        return self._ask(context, self._cast(prompts.queries), [context.shape[1]] * prompts.num_queries)

    def chunk(self, prompts: Prompts, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """Read the next examples of B prompts, and answer queries behind them.

        Args:
            prompts: N more examples of each prompt and Q queries; both may be 0.
            cache: what the chunk before returned; ``None`` at the beginning.

        Returns:
            ``(B, N + Q)``, the columns of `forward` on all examples so far: k < N predicts example k of the chunk from
            all before it, the others answer the queries. And the cache behind the examples, which no query has touched.
            Gradients flow through it into the chunks before, unless `iclab.models.detach_cache` cuts it off.

        Raises:
            InputError: where the backbone cannot be fed in chunks, and for a cache that is not of these prompts, of
                this model, or leaves no positions for the chunk.
        """
        self._check_dim(prompts)
        backbone, count, context = self._chunking(), prompts.num_examples, self._context(prompts)
        apart = self.layout == "concatenated"  # predictions along the prompt are branches too
        inputs = prompts.inputs if apart else prompts.queries
        after = [*(range(count) if apart else ()), *[context.shape[1]] * prompts.num_queries]
        queries = self._read_in(query_tokens(self.layout, self._cast(inputs)))
        if isinstance(backbone, ChunkedBackbone):
            along, answers, cache = backbone.chunk_with_branches(context, queries, after, cache)
        else:
            cache = backbone.initial_cache(prompts.batch_size) if cache is None else cache
            along, answers, cache = chunk_with_branches_by_copies(backbone, context, queries, after, cache)
        return self._read_out(answers if apart else torch.cat([along[:, ::2], answers], 1)), cache

    def predict(self, prompts: Prompts) -> Tensor:
        """Predict at the queries, ``(B, Q)`` in the dtype of the prompts; no gradients, evaluation mode."""
        return self._predict(self.queries, prompts, prompts.num_queries)

    def predict_prefixes(self, prompts: Prompts) -> Tensor:
        """Predict each example from those before it, as `predict` does.

        Returns:
            ``(B, N)``, where column k predicts example k from the k examples before it.
        """
        branches = prompts.num_examples if self.layout == "concatenated" else 0
        return self._predict(self.prefixes, prompts, branches)

    @torch.no_grad()
    def _predict(self, answer: Callable[[Prompts], Tensor], prompts: Prompts, branches: int) -> Tensor:
        self._check(prompts)
        check_finite("a context label", prompts.example_labels)
        check_finite("an input", prompts.inputs)
        length = 1 + prompts.num_examples * tokens_per_example(self.layout)
        branch = length if branching(self.backbone) is None else _BRANCH
        rows = max(1, _TOKENS_AT_ONCE // (length + branches * branch))
        advice = f"lower the number of examples ({prompts.num_examples}) or queries ({prompts.num_queries})"
        device = self.read_in.weight.device
        with evaluating(self), memory_advice(f"predicting with {self.name}", device, advice):
            starts = range(0, max(prompts.batch_size, 1), rows)
            predictions = torch.cat([answer(prompts[start : start + rows]) for start in starts])
        if not is_finite(predictions):
            raise InputError(
                f"{self.name} predicts numbers that are not finite, for inputs up to "
                f"{float(prompts.inputs.abs().max()):.3g} in size; train it again with a smaller learning rate, or "
                "scale inputs and labels"
            )
        return predictions.to(prompts.inputs)

    def _context(self, prompts: Prompts) -> Tensor:
        """``(B, L, M)``: all that the examples say, read in."""
        examples, labels = self._cast(prompts.examples), self._cast(prompts.example_labels)
        return self._read_in(context_tokens(self.layout, examples, labels))

    def _ask(self, context: Tensor, inputs: Tensor, after: Sequence[int]) -> Tensor:
        """``(B, Q)``: what is predicted at ``inputs (B, Q, d)``, each behind its own part of the context."""
        queries = self._read_in(query_tokens(self.layout, inputs))
        if context.shape[1] == 0:
            answers = self._run(queries.flatten(0, 1)[:, None]).reshape(queries.shape)
        elif list(after) == [context.shape[1]]:
            answers = self._run(torch.cat([context, queries], 1))[:, -1:]
        elif (backbone := branching(self.backbone)) is not None:
            answers = backbone.branch(context, queries, after)[1]
        else:
            answers = branch_by_repetition(self._run, context, queries, after)
        return self._read_out(answers)

    def _run(self, tokens: Tensor) -> Tensor:
        outputs: Tensor = self.backbone(tokens)
        if outputs.shape != tokens.shape:
            raise InputError(
                f"{type(self.backbone).__name__} returned shape {tuple(outputs.shape)} for tokens of shape "
                f"{tuple(tokens.shape)}; expected the same"
            )
        return outputs

    def _read_out(self, outputs: Tensor) -> Tensor:
        return self._exactly(self.read_out, outputs)[..., 0]

    def _read_in(self, tokens: Tensor) -> Tensor:
        return self._exactly(self.read_in, tokens)

    @staticmethod
    def _exactly(layer: nn.Linear, values: Tensor) -> Tensor:
        """Without autocast: bfloat16 would leave three digits of labels and predictions."""
        with torch.autocast(values.device.type, enabled=False):
            return layer(values.to(layer.weight.dtype))

    def _cast(self, values: Tensor) -> Tensor:
        return values.to(self.read_in.weight)

    def _chunking(self) -> ChunkingBackbone:
        backbone = chunking(self.backbone)
        if backbone is None:
            raise InputError(
                f"{type(self.backbone).__name__} carries no state from chunk to chunk; give it initial_cache and chunk"
            )
        return backbone

    def _check(self, prompts: Prompts) -> None:
        self._check_dim(prompts)
        self._check_length(prompts.num_examples)

    def _check_dim(self, prompts: Prompts) -> None:
        if prompts.ambient_dim != self.input_dim:
            raise InputError(
                f"the prompts have dimension {prompts.ambient_dim}; this model was built for {self.input_dim}"
            )

    def _check_length(self, num_examples: int) -> None:
        longest = self.max_examples
        if longest is not None and num_examples > longest:
            raise InputError(
                f"the prompts have {num_examples} examples and {self.name} has positions for {longest}; cut them with "
                'prefix(), or build the backbone with a larger max_positions, or with positions="none" or "rotary"'
            )
