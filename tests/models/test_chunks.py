"""A context that comes in chunks: outputs, answers and gradients of the whole, and a cache that is checked."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.models import GPT2, InContextModel, LinearAttention, Mamba, detach_cache, initial_values
from iclab.models.backbones.backbone import chunk_with_branches_by_copies
from iclab.prompts import Prompts, SingleIndex, Stream

WIDTH = 8
KINDS: dict[str, Callable[..., Any]] = {
    "mamba": lambda: Mamba(WIDTH, 2, state_size=3, dt_min=0.05, dt_max=1.0),
    "constant time steps": lambda: Mamba(WIDTH, 2, state_size=3, conv_width=1, selectivity="constant_delta"),
    "falcon": lambda: Mamba(WIDTH, 1, state_size=3, mixer_norm_eps=1e-6, activation="gelu", bias=True),
    "linear": lambda: LinearAttention(WIDTH, 2, state_size=3),
    "learned": lambda: GPT2(WIDTH, 2, heads=2, max_positions=32),
    "none": lambda: GPT2(WIDTH, 2, heads=2, positions="none"),
    "rotary": lambda: GPT2(WIDTH, 2, heads=2, positions="rotary", scale_attention_by_layer=True),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
SPLITS = st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any)


def build(kind: str) -> Any:
    """In float64, its weights away from the zeros and ones that hide a missing term."""
    with initial_values(Stream(0).child(kind)):
        model = KINDS[kind]()
        for parameter in model.parameters():
            nn.init.normal_(parameter, parameter.mean().item(), 0.3)
    return model.double()


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@every_kind
@settings(max_examples=5, deadline=None)
@given(sizes=SPLITS)
@example(sizes=[1, 0, 2, 6])
def test_outputs_and_gradients_are_those_of_the_whole(kind: str, sizes: list[int]) -> None:
    model = build(kind)
    x = torch.randn(2, sum(sizes), WIDTH, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, sum(sizes), WIDTH, dtype=torch.float64)
    outputs, cache = [], None
    for piece in x.split(sizes, 1):
        output, cache = model.chunk(piece, cache)
        outputs.append(output)
    found, expected = torch.cat(outputs, 1), model(x)
    same(found, expected)
    inputs = [x, *model.parameters()]
    ours, whole = (
        torch.autograd.grad((y * weights).sum(), inputs, allow_unused=True, materialize_grads=True)
        for y in (found, expected)
    )
    for mine, other in zip(ours, whole, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-8 * max(1.0, float(other.abs().max())))


@every_kind
@settings(max_examples=5, deadline=None)
@given(before=st.integers(0, 5), length=st.integers(0, 5), data=st.data())
def test_branches_of_a_chunk_are_tokens_behind_copies_of_the_cache(kind: str, before: int, length: int, data) -> None:
    model = build(kind)
    after = data.draw(st.lists(st.integers(0, length), max_size=5))
    x = torch.randn(2, before + length, WIDTH, dtype=torch.float64)
    queries = torch.randn(2, len(after), WIDTH, dtype=torch.float64)
    _, cache = model.chunk(x[:, :before])
    context = x[:, before:]
    along, answers, behind = model.chunk_with_branches(context, queries, after, cache)
    expected = chunk_with_branches_by_copies(model, context, queries, after, cache)
    same(along, expected[0])
    same(answers, expected[1])
    for q, tokens in enumerate(after):  # the definition
        sequence = torch.cat([x[:, : before + tokens], queries[:, q : q + 1]], 1)
        same(answers[:, q], model(sequence)[:, -1])
    last = torch.randn(2, 1, WIDTH, dtype=torch.float64)
    for state in (behind, expected[2]):
        same(model.chunk(last, state)[0], model(torch.cat([x, last], 1))[:, -1:])


class Sums(nn.Module):
    """A backbone of somebody else: ``initial_cache`` and ``chunk``, and no branches."""

    width = WIDTH

    def forward(self, x: Tensor) -> Tensor:
        return self.chunk(x, self.initial_cache(len(x)))[0]

    def initial_cache(self, batch: int) -> tuple[tuple[Tensor, ...], ...]:
        return ((torch.zeros(batch, WIDTH, dtype=torch.float64),),)

    def chunk(self, x: Tensor, cache: tuple[tuple[Tensor, ...], ...]) -> tuple[Tensor, Any]:
        sums = cache[0][0][:, None] + x.cumsum(1)
        return torch.tanh(sums), ((sums[:, -1],),)


@pytest.mark.parametrize("layout", ["interleaved", "padded", "concatenated"])
@pytest.mark.parametrize("kind", ["mamba", "linear", "learned", "rotary", "own"])
@settings(max_examples=3, deadline=None)
@given(sizes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4))
@example(sizes=[(2, 0), (0, 2), (3, 1)])
def test_prompts_in_chunks_of_examples_and_queries(kind: str, layout: str, sizes: list[tuple[int, int]]) -> None:
    model = InContextModel(3, Sums() if kind == "own" else build(kind), layout=layout).double()
    drawn = SingleIndex(3, 2, "tanh", 0.1).sample(Stream(0), 2, 15, 3, dtype=torch.float64)
    cache, seen = None, 0
    for count, num_queries in sizes:
        rows = [*range(seen, seen + count), *range(15, 15 + num_queries)]
        found, cache = model.chunk(Prompts(drawn.inputs[:, rows], drawn.labels[:, rows], count), cache)
        whole = [*range(seen + count), *range(15, 15 + num_queries)]
        expected = model(Prompts(drawn.inputs[:, whole], drawn.labels[:, whole], seen + count))[:, seen:]
        same(found, expected)
        seen += count


def test_a_detached_cache_ends_the_gradient_and_holds_its_own_memory_alone() -> None:
    for kind in KINDS:
        model = build(kind)
        x = torch.randn(3, 20, WIDTH, dtype=torch.float64, requires_grad=True)
        _, cache = model.chunk(x[:, :16])
        output, _ = model.chunk(x[:, 16:], detach_cache(cache))
        (gradient,) = torch.autograd.grad(output.square().sum() + output.sum(), x)
        assert (gradient[:, :16] == 0).all()
        assert gradient[:, 16:].abs().max() > 0
        for tensor in (tensor for layer in cache for tensor in layer):
            assert tensor.untyped_storage().nbytes() == 8 * tensor.numel()


@every_kind
def test_caches_that_cannot_be_continued(kind: str) -> None:
    model = build(kind)
    x = torch.zeros(2, 3, WIDTH, dtype=torch.float64)
    _, cache = model.chunk(x)
    other = build("linear" if kind != "linear" else "none")
    narrow = model.float().chunk(x.float())[1]
    model.double()
    wrong: list[tuple[Any, str]] = [
        (model.initial_cache(3), "the cache is of 3 sequences and the tokens of 2; expected as many"),
        (cache * 2, "layers and the model"),
        (other.initial_cache(2)[:1] * len(cache), "layer 0 of the cache has tensors of shapes .* of another model"),
        (narrow, "the cache is float32 where this model has float64; cast"),
        (torch.zeros(2, 3), "the cache is a Tensor; expected what"),
        (cache[0], "the cache is a tuple of Tensor; expected what"),
        (tuple((None,) * len(layer) for layer in cache), "layer 0 of the cache holds more than tensors"),
        (detach_cache(model.to("meta").initial_cache(2)), "the cache is on meta and the tokens on cpu; move"),
    ]
    model = build(kind)
    queries = torch.zeros(2, 1, WIDTH, dtype=torch.float64)
    for given_cache, message in wrong:
        for call in (
            lambda c: model.chunk(x, c),
            lambda c: model.step(x[:, 0], c),
            lambda c: model.chunk_with_branches(x, queries, [1], c),
        ):
            with pytest.raises(InputError, match=message) as error:
                call(given_cache)
            assert "\n" not in str(error.value)
    for tokens, after in ((x, [4]), (x, [-1]), (x, [0, 1]), (x[:1], [0])):
        with pytest.raises(InputError, match=r"the queries (follow|are of)"):
            model.chunk_with_branches(tokens, queries, after)
    with pytest.raises(InputError, match=r"tokens have shape \(2, 3, 7\); expected \(prompts, tokens >= 0, 8\)"):
        model.chunk(x[..., 1:], cache)


def test_chunks_beyond_the_positions() -> None:
    model = GPT2(WIDTH, 1, heads=2, max_positions=6)
    x = torch.zeros(1, 4, WIDTH)
    _, cache = model.chunk(x)
    for call in (
        lambda: model.chunk(x, cache),
        lambda: model.chunk_with_branches(x, x[:, :1], [0], cache),
        lambda: model.chunk_with_branches(x, x[:, :1], [4], model.chunk(x[:, :3])[1]),
    ):
        with pytest.raises(InputError, match=r"a sequence has [78] tokens and the model has 6 positions"):
            call()
    answers = model.chunk_with_branches(x[:, :1], x[:, :1], [1], cache)[1]
    assert answers.shape == (1, 1, WIDTH)
    two = (cache[0], tuple(tensor[:, :, 1:] for tensor in cache[0]))
    with pytest.raises(InputError, match="layers of the cache have seen 3, 4 tokens"):
        GPT2(WIDTH, 2, heads=2).chunk(x, two)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_count_of_tokens_is_exact_in_every_dtype(dtype: torch.dtype) -> None:
    """In bfloat16 ``256 + 1 = 256``: the mean of equal tokens would grow with their number."""
    model = LinearAttention(WIDTH, 1, state_size=3).to(dtype)
    x = torch.ones(1, 1, WIDTH, dtype=dtype).expand(1, 400, WIDTH)
    output, cache = model.chunk(x)
    for _ in range(9):
        _, cache = model.step(x[:, 0], cache)
    last, cache = model.step(x[:, 0], cache)
    assert cache[0][2].tolist() == [[410.0]]
    # From the fourth token on all are alike, so the mean over them tends to the value at each.
    torch.testing.assert_close(last, output[:, -1], rtol=0.03, atol=0.03)


@every_kind
def test_under_autocast_the_cache_keeps_the_dtype_of_the_weights(kind: str) -> None:
    model = build(kind).float()
    x = torch.randn(2, 12, WIDTH)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        first, cache = model.chunk(x[:, :5])
        second, _ = model.chunk(x[:, 5:], cache)
        whole = model(x)
    assert {tensor.dtype for layer in cache for tensor in layer} == {torch.float32}
    assert (torch.cat([first, second], 1).float() - whole.float()).abs().max() < 0.1
