"""The root mean square norm: as PyTorch's, with its derivatives of every order and kind."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F

from iclab.ops import core
from iclab.ops.norm import rms_norm as norm
from iclab.ops.norm.rms_norm import rms_norm

DTYPES = [torch.float32, torch.float64]


@pytest.fixture(autouse=True)
def always_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norm, "_LEAST", 0)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def draw(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(len(shape) + shape[-1])
    x = 3 * torch.randn(shape, generator=generator, dtype=dtype)
    weight = torch.randn(shape[-1], generator=generator, dtype=dtype)
    grad = torch.randn(shape, generator=generator, dtype=dtype)
    return x.requires_grad_(), weight.requires_grad_(), grad


def by_definition(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return weight * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


@pytest.mark.parametrize("which", ["avx512", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 1), (5, 8), (2, 3, 16), (200, 33), (2, 2, 2, 100), (70, 256)])
def test_value_and_gradients(shape: tuple[int, ...], dtype: torch.dtype, which: str, monkeypatch: pytest.MonkeyPatch):
    if core.FILE is not None:
        if which not in core.instruction_sets():
            pytest.skip(f"no {which} on this processor or from this compiler")
        monkeypatch.setenv("ICLAB_SCAN_SET", which)
    x, weight, grad = draw(shape, dtype)
    y = rms_norm(x, weight, 1e-5)
    found = (y, *torch.autograd.grad(y, (x, weight), grad))
    other_x, other_weight = x.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    expected_y = by_definition(other_x, other_weight, 1e-5)
    expected = (expected_y, *torch.autograd.grad(expected_y, (other_x, other_weight), grad.double()))
    tolerance = 2e-6 if dtype == torch.float32 else 1e-14
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(
            one.double(), other, rtol=0, atol=tolerance * max(1.0, float(other.detach().abs().max()))
        )


@pytest.mark.parametrize("shape", [(0, 4), (3, 0, 4)])
def test_no_rows(shape: tuple[int, ...]):
    x, weight = torch.zeros(shape, requires_grad=True), torch.ones(4, requires_grad=True)
    y = rms_norm(x, weight, 1e-5)
    assert y.shape == shape
    _, grad = torch.autograd.grad(y.sum(), (x, weight))
    assert torch.equal(grad, torch.zeros(4))


def test_rows_of_other_strides_and_zeros():
    x, weight, _ = draw((6, 10, 8))
    for other in (x.transpose(0, 1), x[::2], x[:, :, ::2], x[:1].expand(4, 10, 8)):
        own = weight[: other.shape[-1]]
        torch.testing.assert_close(rms_norm(other, own, 1e-5), by_definition(other, own, 1e-5))
    assert not rms_norm(torch.zeros(3, 4), torch.ones(4), 1e-5).any()
    assert rms_norm(torch.full((2, 4), torch.nan), torch.ones(4), 1e-5).isnan().all()


def test_it_is_the_core_that_computes():
    x, weight, _ = draw((4, 8))
    name = type(rms_norm(x, weight, 1e-5).grad_fn).__name__
    assert ("iclab_rms_norm" in name) == (core.FILE is not None and norm.core_wanted())
    few = rms_norm(x.half(), weight.half(), 1e-5)
    assert "iclab" not in type(few.grad_fn).__name__


def test_derivatives_of_higher_order():
    x, weight, _ = draw((3, 5))
    assert torch.autograd.gradcheck(lambda a, b: rms_norm(a, b, 0.1), (x, weight))
    assert torch.autograd.gradgradcheck(lambda a, b: rms_norm(a, b, 0.1), (x, weight))


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch.func loads its decompositions
def test_transforms():
    x, weight, tangent = (tensor.detach() for tensor in draw((3, 5)))

    def value(a: Tensor) -> Tensor:
        return rms_norm(a, weight, 0.1)

    expected = torch.autograd.functional.jacobian(lambda a: by_definition(a, weight, 0.1), x)
    torch.testing.assert_close(torch.func.jacrev(value)(x), expected)
    torch.testing.assert_close(torch.func.jacfwd(value)(x), expected)
    torch.testing.assert_close(torch.func.vmap(value)(x), value(x))
    with forward_ad.dual_level():
        slope = forward_ad.unpack_dual(value(forward_ad.make_dual(x, tangent))).tangent
    torch.testing.assert_close(slope, torch.einsum("ijkl,kl->ij", expected, tangent))


def test_results_do_not_depend_on_threads(threads: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(core, "_LEAST_WORK", 1)
    x, weight, grad = draw((150, 40), torch.float32)
    results = []
    for number in (1, 2, 3):
        torch.set_num_threads(number)
        y = rms_norm(x, weight, 1e-5)
        results.append((y, *torch.autograd.grad(y, (x, weight), grad)))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_operator_is_sound():
    if core.FILE is None:
        pytest.skip("the core was not compiled")
    x, weight, _ = draw((4, 8))
    torch.library.opcheck(torch.ops.iclab.rms_norm.default, (x, weight, 1e-5))


def test_small_ones_are_pytorchs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    x, weight, _ = draw((3, 5))
    assert torch.equal(rms_norm(x, weight, 1e-5), F.rms_norm(x, (5,), weight, 1e-5))


@pytest.mark.parametrize("shape", [(64,), (512,), (1, 256), ()])
def test_a_weight_of_another_shape_is_refused(shape: tuple[int, ...]):
    with pytest.raises(RuntimeError):
        rms_norm(torch.randn(200, 256), torch.ones(shape), 1e-5)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_compiled_transforms():
    x, weight, tangent = (tensor.detach() for tensor in draw((6, 5)))

    def value(a: Tensor) -> Tensor:
        return rms_norm(a, weight, 0.1).pow(3).mean()

    def slope(a: Tensor) -> Tensor:
        return torch.func.jvp(value, (a,), (tangent,))[1]

    for function in (slope, torch.func.grad(value), torch.func.vmap(torch.func.grad(value))):
        torch.testing.assert_close(torch.compile(function, backend="eager")(x), function(x))
    torch.testing.assert_close(torch.func.grad(torch.compile(value, backend="eager"))(x), torch.func.grad(value)(x))


def test_squares_below_the_normal_numbers_count():
    x = torch.full((4, 16), 3e-21)
    torch.testing.assert_close(
        rms_norm(x, torch.ones(16), 0.0), F.rms_norm(x, (16,), torch.ones(16), 0.0), rtol=0.3, atol=0
    )
