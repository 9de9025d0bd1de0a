"""The one-layer model in chunks of examples, against its closed form on each prompt cut there."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from iclab.errors import InputError
from iclab.models import EMBEDDINGS, MODEL_GATES, OneLayerMamba
from iclab.prompts import Prompts, Stream

D = 3
KINDS = list(itertools.product(MODEL_GATES, EMBEDDINGS))


def make(gate: str = "mamba", embedding: str = "hermite2", dtype: torch.dtype = torch.float64, d: int = D) -> Any:
    model = OneLayerMamba(d, 6, gate=gate, embedding=embedding, rho=0.7, b=-1.0, clip=1.5, dtype=dtype)
    generator = Stream(5).at(0)
    with torch.no_grad():
        for tensor in (model.gamma, model.a2, model.a1, model.v):
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return model


def draw(count: int, num_queries: int = 2, batch: int = 2, d: int = D) -> Prompts:
    generator = Stream(6).at(count)
    inputs = torch.randn(batch, count + num_queries, d, generator=generator, dtype=torch.float64)
    labels = torch.randn(batch, count + num_queries, generator=generator, dtype=torch.float64)
    labels[:, count:] = torch.nan
    return Prompts(inputs, labels, count)


def part(prompts: Prompts, known: list[int], asked: list[int]) -> Prompts:
    return Prompts(prompts.inputs[:, known + asked], prompts.labels[:, known + asked], len(known))


@pytest.mark.parametrize(("gate", "embedding"), KINDS)
@settings(max_examples=3, deadline=None)
@given(sizes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=4))
@example(sizes=[(2, 0), (0, 2), (18, 1), (1, 2)])
def test_outputs_and_gradients_are_those_of_the_prompt_cut_there(
    gate: str, embedding: str, sizes: list[tuple[int, int]]
) -> None:
    model, prompts = make(gate, embedding), draw(21)
    found: list[Tensor] = []
    expected: list[Tensor] = []
    cache, seen = None, 0
    for count, num_queries in sizes:
        queries = [*range(21, 21 + num_queries)]
        outputs, cache = model.chunk(part(prompts, [*range(seen, seen + count)], queries), cache)
        found.append(outputs)
        expected += [model(part(prompts, [*range(k)], [k])) for k in range(seen, seen + count)]
        seen += count
        expected.append(model(part(prompts, [*range(seen)], queries)))
    ours, theirs = torch.cat(found, 1), torch.cat(expected, 1)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    weights = torch.randn_like(ours)
    parameters = [model.gamma, model.a2]
    if ours.numel():
        pairs = (torch.autograd.grad((y * weights).sum(), parameters) for y in (ours, theirs))
        for mine, other in zip(*pairs, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-8)


def test_caches_that_cannot_be_continued() -> None:
    model, prompts = make(), draw(4)
    wrong: list[tuple[Any, str]] = [
        (model.chunk(draw(4, batch=3))[1], "the cache is of 3 sequences and the tokens of 2; expected as many"),
        (model.chunk(prompts)[1] * 2, "the cache has 2 layers and the model 1"),
        (make(embedding="identity").chunk(prompts)[1], "layer 0 of the cache has tensors of shapes .* another model"),
        (make(d=4).chunk(draw(4, d=4))[1], "layer 0 of the cache has tensors of shapes .* another model"),
        (make(dtype=torch.float32).chunk(prompts)[1], "the cache is float32 where this model has float64; cast"),
    ]
    for cache, message in wrong:
        with pytest.raises(InputError, match=message) as error:
            model.chunk(prompts, cache)
        assert "\n" not in str(error.value)
