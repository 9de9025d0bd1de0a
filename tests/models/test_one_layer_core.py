"""The one-layer model's gate and state by the compiled core, against sums written out in float64 and against torch."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

from iclab.errors import InputError
from iclab.models import OneLayerMamba
from iclab.models.one_layer.label_gate import LabelGate
from iclab.ops import core, gated_state
from iclab.prompts import Prompts, SingleIndex, Stream

pytestmark = pytest.mark.skipif(core.FILE is None, reason="the core was not compiled")
STREAM = Stream(11).child("core of the one-layer model")
SETS = ["avx512", "avx2", "baseline"]
DTYPES = [torch.float32, torch.float64]


@pytest.fixture(autouse=True)
def the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ICLAB_SCAN", raising=False)


@pytest.fixture(params=SETS)
def instruction_set(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param not in core.instruction_sets():
        pytest.skip(f"no {request.param} on this processor or from this compiler")
    monkeypatch.setenv("ICLAB_SCAN_SET", request.param)
    return request.param


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def state_by_definition(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x, c = x.double(), c.double()
    outer = x[..., :, None] * x[..., None, :] - torch.eye(x.shape[-1], dtype=torch.float64)
    return c.sum(-1), torch.einsum("bn,bni->bi", c, x), torch.einsum("bn,bnij->bij", c, outer) * 2**-0.5


def weights_by_definition(labels: Tensor, rho: float, b: float) -> Tensor:
    """Logs of ``sigmoid(u_j)/sigmoid(b) prod_{k>j} (1 - sigmoid(u_k)) (1 - sigmoid(b))``."""
    u = labels.double() / rho + b
    keep = -torch.logaddexp(torch.zeros_like(u), u)
    after = torch.stack([keep[:, j + 1 :].sum(-1) for j in range(u.shape[1])], 1)
    unit, query = -np.logaddexp(0, -b), -np.logaddexp(0, b)
    return -torch.logaddexp(torch.zeros_like(u), -u) - unit + after + query


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "dim", [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 25, 31, 32, 33, 40, 47, 48, 56, 70, 130]
)
def test_state_of_every_width(dim: int, dtype: torch.dtype, instruction_set: str):
    generator = STREAM.at(dim)
    for length in (1, 2, 63, 64, 65, 200):
        inputs = torch.randn(3, length + 2, dim, generator=generator, dtype=dtype)
        x, c = inputs[:, :length], torch.randn(3, length, generator=generator, dtype=dtype)
        found = gated_state.hermite_state(x, c)
        size = length**0.5 * (1e-6 if dtype == torch.float32 else 2e-15)
        for block, expected in zip(found, state_by_definition(x, c), strict=True):
            assert block.dtype == dtype
            torch.testing.assert_close(
                block.double(), expected, rtol=0, atol=size * max(1.0, float(expected.abs().max()))
            )
        assert torch.equal(found[2], found[2].transpose(1, 2))


def test_state_reads_any_strides():
    x, c = torch.randn(5, 33, 11, generator=STREAM.at(0)), torch.randn(5, 33, generator=STREAM.at(1))
    expected = gated_state.hermite_state(x, c)
    for other in (x.transpose(0, 1).contiguous().transpose(0, 1), x.transpose(1, 2).contiguous().transpose(1, 2)):
        assert all(torch.equal(a, b) for a, b in zip(expected, gated_state.hermite_state(other, c), strict=True))
    same = gated_state.hermite_state(x[:1].expand(4, 33, 11), c[:1].expand(4, 33))
    assert all(torch.equal(a[0], b) for a, block in zip(expected, same, strict=True) for b in block)
    spread = torch.randn(5, 66, generator=STREAM.at(2))
    spread[:, ::2] = c
    assert all(torch.equal(a, b) for a, b in zip(expected, gated_state.hermite_state(x, spread[:, ::2]), strict=True))


@pytest.mark.parametrize("shape", [(0, 5, 3), (4, 0, 3), (0, 0, 3)])
def test_nothing_gives_zero(shape: tuple[int, int, int]):
    zeroth, first, second = gated_state.hermite_state(torch.randn(shape), torch.randn(shape[:2]))
    assert zeroth.shape == shape[:1]
    assert first.shape == (shape[0], 3)
    assert second.shape == (shape[0], 3, 3)
    assert not zeroth.any()
    assert not first.any()
    assert not second.any()
    gate = LabelGate("mamba", 0.5, -3.0)
    assert gate.log_weights(torch.randn(shape[:2])).shape == shape[:2]
    assert gate.weighted_labels(torch.randn(shape[:2])).shape == shape[:2]


def test_one_bad_example_spoils_its_own_prompt_alone():
    """As a product of matrices would: what is not finite is not hidden, and does not spread."""
    x, c = torch.randn(3, 70, 5, generator=STREAM.at(3)), torch.randn(3, 70, generator=STREAM.at(4))
    good = gated_state.hermite_state(x, c)
    x[1, 66, 2] = torch.inf
    bad = gated_state.hermite_state(x, c)
    assert all(torch.equal(a[::2], b[::2]) for a, b in zip(good, bad, strict=True))
    assert not bad[1][1, 2].isfinite()
    assert not bad[2][1, 2].isfinite().any()
    assert not bad[2][1, :, 2].isfinite().any()
    assert torch.equal(good[2][1, :2, :2], bad[2][1, :2, :2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rho", "b"), [(0.5, -10.4), (0.1, -3.0), (2.0, 0.0), (1.0, 5.0), (0.5, -39.0)])
def test_gate_weights(rho: float, b: float, dtype: torch.dtype, instruction_set: str):
    gate = LabelGate("mamba", rho, b)
    for length in (1, 3, 8, 15, 16, 17, 130):
        labels = torch.randn(4, length, generator=STREAM.at(length), dtype=dtype)
        expected = weights_by_definition(labels, rho, b)
        found = gate.log_weights(labels)
        assert found.dtype == dtype
        size = (2e-6 if dtype == torch.float32 else 1e-14) * (1 + float(expected.abs().max()))
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=size)
        weighted = gate.weighted_labels(labels).double() * length
        torch.testing.assert_close(weighted, expected.exp() * labels.double(), rtol=2 * size, atol=1e-35)


@pytest.mark.parametrize("dtype", DTYPES)
def test_huge_labels_close_and_reset(dtype: torch.dtype, instruction_set: str):
    """A label of 1e6 erases what came before it and leaves what comes after it as it was."""
    labels = torch.tensor([[0.3, 1e6, -0.2, 0.4, -1e6, 0.1, 1e30, 0.2]], dtype=dtype)
    gate = LabelGate("mamba", 0.5, -3.0)
    found = gate.log_weights(labels)
    after = gate.log_weights(labels[:, 7:])
    assert torch.equal(found[:, 7:], after)
    assert float(found[0, 6]) == pytest.approx(float(weights_by_definition(labels, 0.5, -3.0)[0, 6]), rel=1e-5)
    assert (found[:, :6] < -1e29).all()
    assert found.isfinite().all()
    assert not gate.weighted_labels(labels)[:, :6].any()
    largest = torch.full((1, 3), torch.finfo(dtype).max, dtype=dtype)
    assert not LabelGate("mamba", 1e-3, 0.0).log_weights(largest).isnan().any()


@pytest.mark.parametrize("which", ["log_weights", "weighted_labels"])
@pytest.mark.parametrize("shape", [(100,), (9, 100), (2, 3, 10), (0, 4)])
@pytest.mark.parametrize("rho", [0.7, 1e-40])
def test_gate_is_that_of_torch(which: str, shape: tuple[int, ...], rho: float, monkeypatch: pytest.MonkeyPatch):
    labels = 2 * torch.randn(shape, generator=STREAM.at(5), dtype=torch.float64)
    gate = LabelGate("mamba", rho, -4.0)
    found = getattr(gate, which)(labels)
    monkeypatch.setenv("ICLAB_SCAN", "torch")
    torch.testing.assert_close(found, getattr(gate, which)(labels), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "labels", [torch.full((1, 50_000), 0.5), torch.ones(1, 50_000) - 2 * (torch.arange(50_000) % 2)]
)
def test_long_prompts_of_few_values(labels: torch.Tensor, instruction_set: str):
    """Equal terms round the same way every time: sums in float32 would drift."""
    expected = LabelGate("mamba", 0.5, -8.3).log_weights(labels.double())
    found = LabelGate("mamba", 0.5, -8.3).log_weights(labels)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)


def test_features_are_those_of_torch_whatever_the_threads_and_the_batch(threads: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(core, "_LEAST_WORK", 1)
    prompts = SingleIndex(13, 2, "he3", 0.1).sample(STREAM, 21, 90)
    model = OneLayerMamba(13, 8)
    results = []
    for number in (1, 2, 3):
        torch.set_num_threads(number)
        results.append(model.features(prompts))
    torch.set_num_threads(1)
    results.append(type(results[0]).cat([model.features(prompts[i : i + 2]) for i in range(0, 21, 2)]))
    for other in results[1:]:
        for name in ("degree0", "degree1", "degree2"):
            assert torch.equal(getattr(results[0], name), getattr(other, name))
    monkeypatch.setenv("ICLAB_SCAN", "torch")
    slow = model.features(prompts)
    for name in ("degree0", "degree1", "degree2"):
        torch.testing.assert_close(getattr(results[0], name), getattr(slow, name), rtol=1e-4, atol=1e-5)


def both(prompts: Prompts, model: OneLayerMamba) -> Tensor:
    state = model.features(prompts)
    return (state.degree0.square() + state.degree1.square().sum(-1) + state.degree2.square().sum((-1, -2))).sum()


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch.func loads its decompositions
def test_gradients_and_tangents_are_not_lost():
    """Where derivatives are asked for, the core stands back: by graphs, by torch.func, and forward."""
    model = OneLayerMamba(4, 8, b=-1.0, dtype=torch.float64)
    drawn = SingleIndex(4, 2, "he3").sample(STREAM, 3, 6, dtype=torch.float64)

    def value(inputs: Tensor, labels: Tensor) -> Tensor:
        return both(Prompts(inputs, labels, 6, trusted=True), model)

    x, y = drawn.inputs.clone().requires_grad_(), drawn.labels.clone().requires_grad_()
    assert torch.autograd.gradcheck(value, (x, y))
    by_x, by_y = torch.autograd.grad(value(x, y), (x, y))
    for place, expected in ((0, by_x), (1, by_y)):
        found = torch.func.grad(value, argnums=place)(drawn.inputs, drawn.labels)
        torch.testing.assert_close(found, expected)
        tangent = torch.randn(expected.shape, generator=STREAM.at(place), dtype=torch.float64)
        with forward_ad.dual_level():
            given = [drawn.inputs, drawn.labels]
            given[place] = forward_ad.make_dual(given[place], tangent)
            slope = forward_ad.unpack_dual(value(*given)).tangent
        assert slope is not None
        torch.testing.assert_close(slope, (expected * tangent).sum())
    seen: list[bool] = []
    torch.func.vmap(lambda row: seen.append(gated_state.serves(row)) or row)(drawn.labels)
    assert seen == [False]


def test_a_graph_of_gamma_alone_takes_the_core():
    prompts = SingleIndex(4, 2, "he3").sample(STREAM, 3, 6)
    model = OneLayerMamba(4, 8)
    assert gated_state.serves(prompts.examples, prompts.example_labels)
    model.draw_head(STREAM)
    with torch.no_grad():
        model.a2.fill_(0.1)
    (grad,) = torch.autograd.grad(model(prompts).sum(), model.gamma)
    assert grad.any()


def test_what_the_core_does_not_serve(monkeypatch: pytest.MonkeyPatch):
    tensor = torch.zeros(2, 3)
    assert gated_state.serves(tensor)
    assert not gated_state.serves(tensor, tensor.half())
    assert not gated_state.serves(torch.zeros(2, 3, device="meta"))
    assert not gated_state.serves(tensor.clone().requires_grad_())
    with torch.no_grad():
        assert gated_state.serves(tensor.clone().requires_grad_())
    assert not gated_state.serves(torch._efficientzerotensor(2, 3))
    assert not gated_state.serves(torch._neg_view(tensor))
    with FakeTensorMode() as mode:
        assert not gated_state.serves(mode.from_tensor(tensor))
        assert not gated_state.serves(tensor)
    assert not gated_state.serves(mode.from_tensor(tensor))
    monkeypatch.setenv("ICLAB_SCAN", "nonsense")
    with pytest.raises(InputError, match="backend is 'nonsense'"):
        gated_state.serves(tensor)
    for name, expected in (("auto", True), ("c", True), ("", True), ("torch", False), ("triton", False)):
        monkeypatch.setenv("ICLAB_SCAN", name)
        assert gated_state.serves(tensor) is expected
    monkeypatch.delenv("ICLAB_SCAN")
    monkeypatch.setattr(core, "FILE", None)
    assert not gated_state.serves(tensor)


@pytest.mark.filterwarnings("ignore")  # tracing warns of itself, and of numbers that it takes as constants
@pytest.mark.parametrize("which", ["log_weights", "weighted_labels"])
def test_a_trace_holds_the_operations(which: str):
    gate, labels = LabelGate("mamba", 0.7, -4.0), torch.randn(3, 20, generator=STREAM.at(7))
    traced: Any = torch.jit.trace(getattr(gate, which), (labels,), check_trace=False)
    torch.testing.assert_close(traced(2 * labels), getattr(gate, which)(2 * labels))


def test_autocast_gives_the_same_with_and_without_gradients():
    prompts, model = SingleIndex(4, 2, "he3").sample(STREAM, 3, 6), OneLayerMamba(4, 8)
    recorded = Prompts(prompts.inputs.clone().requires_grad_(), prompts.labels, 6, trusted=True)
    with torch.autocast("cpu", torch.bfloat16):
        one, other = model.features(prompts).degree2, model.features(recorded).degree2
    assert torch.equal(one, other)
    assert one.dtype == other.dtype
