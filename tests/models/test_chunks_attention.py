"""Attention on whole tokens in chunks of examples: one layer and stacks, against the pass over the whole prompt."""

from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from iclab.errors import InputError
from iclab.models import AttentionStack, GatedLinearAttention, SoftmaxAttention, detach_cache, recurrent_outputs
from iclab.prompts import Prompts, Stream

D = 3
MODELS: dict[str, Any] = {
    "gated": lambda: GatedLinearAttention(D, state_size=2, dtype=torch.float64),
    "linear": lambda: GatedLinearAttention(D, gated=False, dtype=torch.float64),
    "softmax": lambda: SoftmaxAttention(D, dtype=torch.float64),
    **{
        f"{mixer} stack": lambda mixer=mixer: AttentionStack(D, mixer, 3, state_size=5, dtype=torch.float64)
        for mixer in ("gated", "linear", "softmax")
    },
}
every_model = pytest.mark.parametrize("name", MODELS)
SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=4)


def make(name: str) -> Any:
    model = MODELS[name]()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.normal_(generator=Stream(3).child(name).at(number)).mul_(0.5)
    return model


def draw(count: int, num_queries: int = 2, batch: int = 2) -> Prompts:
    generator = Stream(4).at(count)
    inputs = torch.randn(batch, count + num_queries, D, generator=generator, dtype=torch.float64)
    labels = torch.randn(batch, count + num_queries, generator=generator, dtype=torch.float64)
    labels[:, count:] = torch.nan  # whoever looks at the label of a query predicts NaN
    return Prompts(inputs, labels, count)


@every_model
@settings(max_examples=8, deadline=None)
@given(sizes=SIZES)
@example(sizes=[(2, 0), (0, 2), (3, 1), (1, 2)])
def test_outputs_and_gradients_are_those_of_the_whole(name: str, sizes: list[tuple[int, int]]) -> None:
    model, prompts = make(name), draw(16)
    cache, seen = None, 0
    found, expected = [], []
    for count, num_queries in sizes:
        rows = [*range(seen, seen + count), *range(16, 16 + num_queries)]
        outputs, cache = model.chunk(Prompts(prompts.inputs[:, rows], prompts.labels[:, rows], count), cache)
        seen += count
        rows = [*range(seen), *range(16, 16 + num_queries)]
        whole = Prompts(prompts.inputs[:, rows], prompts.labels[:, rows], seen)
        found.append(outputs)
        expected.append(torch.cat([model.prefixes(whole)[:, seen - count :], model.queries(whole)], 1))
    ours, theirs = torch.cat(found, 1), torch.cat(expected, 1)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    weights = torch.randn_like(ours)
    parameters = list(model.parameters())
    if ours.numel():
        pairs = (
            torch.autograd.grad((y * weights).sum(), parameters, allow_unused=True, materialize_grads=True)
            for y in (ours, theirs)
        )
        for mine, other in zip(*pairs, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-8 * max(1.0, float(other.abs().max())))


@pytest.mark.parametrize("name", ["gated", "linear"])
def test_chunks_of_one_example_are_the_recurrence(name: str) -> None:
    model, prompts = make(name), draw(9)
    outputs, cache = model.chunk(prompts.prefix(0))
    for k in range(9):
        rows = [k, 9, 10]
        outputs, cache = model.chunk(Prompts(prompts.inputs[:, rows], prompts.labels[:, rows], 1), cache)
    torch.testing.assert_close(outputs[:, 1:], recurrent_outputs(model, prompts), rtol=1e-10, atol=1e-10)
    assert [tuple(tensor.shape) for tensor in cache[0]] == [(2, model.state_size, 1)]


def test_a_gate_that_forgets_everything_leaves_no_trace_of_earlier_chunks() -> None:
    """``prod (1 - s)`` underflows; the answer is that of the second chunk alone."""
    model = make("gated")
    with torch.no_grad():
        model.w.copy_(torch.tensor([0.0, 0.0, 0.0, 1000.0]))
    prompts = draw(6)
    labels = prompts.labels.abs()
    first, second = (Prompts(prompts.inputs[:, rows], labels[:, rows], 3) for rows in ([0, 1, 2], [3, 4, 5, 6, 7]))
    behind, _ = model.chunk(second, model.chunk(first)[1])
    torch.testing.assert_close(behind[:, 1:], model.chunk(second)[0][:, 1:], rtol=0, atol=1e-12)


@every_model
def test_caches_that_cannot_be_continued(name: str) -> None:
    model, prompts = make(name), draw(4)
    _, cache = model.chunk(prompts)
    other = make("softmax" if "softmax" not in name else "gated")
    wrong: list[tuple[Any, str]] = [
        (model.chunk(draw(4, batch=3))[1], "the cache is of 3 sequences and the tokens of 2; expected as many"),
        (cache * 2, "layers and the model"),
        (other.chunk(prompts)[1] * len(cache), "layer 0 of the cache has tensors of shapes .* of another model"),
        (make(name).float().chunk(prompts)[1], "the cache is float32 where this model has float64; cast"),
        (detach_cache(cache)[0], "the cache is a tuple of Tensor; expected what"),
    ]
    for given_cache, message in wrong:
        with pytest.raises(InputError, match=message) as error:
            model.chunk(prompts, given_cache)
        assert "\n" not in str(error.value)
