"""Every operator under every way to differentiate: forward, reverse, one over the other, twice, mapped, compiled.

Expected numbers are those of reverse mode through the loop in float64, which central differences confirm.
"""

from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad, functional
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

from iclab.errors import InputError
from iclab.models import GatedLinearAttention, LinearAttention, Mamba
from iclab.ops import backend_in_use, backends, causal_conv, selective_scan
from iclab.ops.norm import rms_norm as norm
from iclab.prompts import OutlierClassification, Stream
from scan_cases import FUSED, make

pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),  # torch.func loads its decompositions
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),  # of torch.func.linearize
]

Function = Callable[[Tensor], Tensor]
SHAPE = (2, 5, 3)
BACKENDS = ("auto", *[name for name in ("c", "torch", "reference") if backends()[name] == "available"])
CASES = [(operator, backend) for operator in ("mamba", "zoh", "plain", "conv") for backend in BACKENDS]
CASES += [("norm", "auto"), ("norm", "reference")]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(autouse=True)
def always_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norm, "_LEAST", 0)


def build(operator: str, backend: str) -> Function:
    """``(B, L, D) -> (L,)``; the input reaches ``u`` and ``delta``, everything else is frozen."""
    rule = operator if operator in ("mamba", "zoh") else "mamba"
    case = make(*SHAPE, states=2, dtype=torch.float64, rule=rule, full=operator != "plain", seed=1)
    weight, bias, start, scale = normal(3, 3), normal(3), normal(2, 2, 3), normal(3, seed=4)

    def scan(u: Tensor) -> Tensor:
        changed = case.but(u=u, delta=case.delta + 0.3 * u)
        if operator == "plain":
            return changed.scan(backend).sum((0, 2)).square()
        y, last, states = changed.scan(backend, return_last_state=True, return_states=True)
        return y.sum((0, 2)).square() + last.sum() + states.sum((0, 2, 3))

    def convolution(u: Tensor) -> Tensor:
        return causal_conv(u, weight, bias, initial_state=start, backend=backend).sum((0, 2)).square()

    def root_mean_square(u: Tensor) -> Tensor:
        if backend == "reference":
            return (scale * u / (u.square().mean(-1, keepdim=True) + 0.1).sqrt()).sum((0, 2)).square()
        return norm.rms_norm(u, scale, 0.1).sum((0, 2)).square()

    return {"conv": convolution, "norm": root_mean_square}.get(operator, scan)


def by_dual(f: Function, x: Tensor, tangent: Tensor) -> Tensor:
    with forward_ad.dual_level():
        slope = forward_ad.unpack_dual(f(forward_ad.make_dual(x, tangent))).tangent
        assert slope is not None
        return slope.detach().clone()


def without_gradients(f: Function, x: Tensor, tangent: Tensor) -> Tensor:
    with torch.no_grad():
        return by_dual(f, x, tangent)


def along(jacobian: Tensor, tangent: Tensor) -> Tensor:
    return torch.einsum("iblc,blc->i", jacobian, tangent)


FIRST: dict[str, Callable[[Function, Tensor, Tensor], Tensor]] = {
    "dual": by_dual,
    "dual of a leaf": lambda f, x, t: by_dual(f, x.clone().requires_grad_(), t),
    "dual without gradients": without_gradients,
    "dual of a leaf without gradients": lambda f, x, t: without_gradients(f, x.clone().requires_grad_(), t),
    "functional, forward": lambda f, x, t: along(functional.jacobian(f, x, strategy="forward-mode", vectorize=True), t),
    "functional, reverse": lambda f, x, t: along(functional.jacobian(f, x, vectorize=True), t),
    "jvp": lambda f, x, t: jvp(f, (x,), (t,))[1],
    "jacfwd": lambda f, x, t: along(jacfwd(f)(x), t),
    "jacrev": lambda f, x, t: along(jacrev(f)(x), t),
    "linearize": lambda f, x, t: linearize(f, x)[1](t),
    "vmap of jvp": lambda f, x, t: vmap(lambda s: jvp(f, (x,), (s,))[1])(torch.stack([t, 2 * t]))[1] / 2,
    "jvp of vmap": lambda f, x, t: jvp(lambda s: vmap(f)(torch.stack([s, s])), (x,), (t,))[1][1],
}


@pytest.mark.parametrize(("operator", "backend"), CASES)
def test_first_derivatives(operator: str, backend: str):
    f, reference = build(operator, backend), build(operator, "reference")
    x, tangent = normal(*SHAPE), normal(*SHAPE, seed=2)
    expected = along(functional.jacobian(reference, x), tangent)
    differences = (reference(x + 1e-6 * tangent) - reference(x - 1e-6 * tangent)) / 2e-6
    torch.testing.assert_close(expected, differences, rtol=1e-6, atol=1e-6)
    for name, mode in FIRST.items():
        torch.testing.assert_close(mode(f, x, tangent), expected, rtol=1e-10, atol=1e-10, msg=name)


def forward_over_reverse(s: Function, x: Tensor, tangent: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    with forward_ad.dual_level():
        (slope,) = torch.autograd.grad(s(forward_ad.make_dual(leaf, tangent)), leaf)
        along_it = forward_ad.unpack_dual(slope).tangent
        assert along_it is not None
        return along_it.detach().clone()


def reverse_over_forward(s: Function, x: Tensor, tangent: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    with forward_ad.dual_level():
        slope = forward_ad.unpack_dual(s(forward_ad.make_dual(leaf, tangent))).tangent
        assert slope is not None
        return torch.autograd.grad(slope, leaf)[0]


def double_backward(s: Function, x: Tensor, tangent: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(s(leaf), leaf, create_graph=True)
    return torch.autograd.grad((slope * tangent).sum(), leaf)[0]


def times(matrix: Tensor, tangent: Tensor) -> Tensor:
    return torch.einsum("abcdef,def->abc", matrix, tangent)


SECOND: dict[str, Callable[[Function, Tensor, Tensor], Tensor]] = {
    "forward over reverse": forward_over_reverse,
    "reverse over forward": reverse_over_forward,
    "double backward": double_backward,
    "jvp of grad": lambda s, x, t: jvp(grad(s), (x,), (t,))[1],
    "grad of jvp": lambda s, x, t: grad(lambda a: jvp(s, (a,), (t,))[1])(x),
    "grad of grad": lambda s, x, t: grad(lambda a: (grad(s)(a) * t).sum())(x),
    "hessian": lambda s, x, t: times(hessian(s)(x), t),
    "jacrev of jacrev": lambda s, x, t: times(jacrev(jacrev(s))(x), t),
    "jacfwd of jacfwd": lambda s, x, t: times(jacfwd(jacfwd(s))(x), t),
    "functional": lambda s, x, t: functional.hvp(s, x, t)[1],
    "functional, forward": lambda s, x, t: times(
        functional.hessian(s, x, outer_jacobian_strategy="forward-mode", vectorize=True), t
    ),
    "vmap of jvp of grad": lambda s, x, t: vmap(lambda a: jvp(grad(s), (x,), (a,))[1])(torch.stack([t, t]))[1],
}


@pytest.mark.parametrize(("operator", "backend"), CASES)
def test_second_derivatives(operator: str, backend: str):
    f, reference = build(operator, backend), build(operator, "reference")
    x, tangent = normal(*SHAPE), normal(*SHAPE, seed=2)
    expected = double_backward(lambda a: reference(a).square().sum(), x, tangent)
    for name, mode in SECOND.items():
        found = mode(lambda a: f(a).square().sum(), x, tangent)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-8, msg=name)


@pytest.mark.parametrize(("operator", "backend"), CASES)
def test_a_gradient_is_linear_in_what_comes_back(operator: str, backend: str):
    """Only the incoming gradient has a tangent; the operator itself has run before."""
    f = build(operator, backend)
    x, tangent = normal(*SHAPE).requires_grad_(), normal(SHAPE[1], seed=3)
    y = f(x)
    expected = torch.autograd.grad(y, x, tangent, retain_graph=True)[0]
    in_use = backend_in_use() if backend == "auto" else backend
    with forward_ad.dual_level():
        incoming = forward_ad.make_dual(torch.zeros_like(y), tangent)
        if (operator, in_use) == ("conv", "torch"):  # PyTorch's silu has no such derivative, and PyTorch says so
            with pytest.raises(NotImplementedError, match="silu_backward"):
                torch.autograd.grad(y, x, incoming)
            return
        found = forward_ad.unpack_dual(torch.autograd.grad(y, x, incoming)[0]).tangent
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    value, back = vjp(f, x.detach())[:2]
    found = jvp(lambda incoming: back(incoming)[0], (torch.zeros_like(value),), (tangent,))[1]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("operator", ["mamba", "conv", "norm"])
def test_compiled(operator: str):
    f = build(operator, "auto")
    x, tangent = normal(*SHAPE), normal(*SHAPE, seed=2)
    expected = along(functional.jacobian(build(operator, "reference"), x), tangent)
    compiled = torch.compile(f, backend="eager")
    compiled(x)  # outside of forward differentiation first
    torch.testing.assert_close(by_dual(compiled, x, tangent), expected)
    torch.testing.assert_close(jvp(compiled, (x,), (tangent,))[1], expected)
    inside = torch.compile(lambda a: jvp(f, (a,), (tangent,))[1], backend="eager")
    torch.testing.assert_close(inside(x), expected)


@pytest.mark.parametrize("backend", FUSED)
@pytest.mark.parametrize("rule", ["mamba", "zoh"])
def test_all_second_derivatives(backend: str, rule: str):
    case = make(batch=1, length=3, channels=2, states=2, dtype=torch.float64, rule=rule).leaves()

    def scan(*tensors: Tensor) -> tuple[Tensor, ...]:
        names = zip(case.tensors(), tensors, strict=True)
        return case.but(**dict(names)).scan(backend, return_last_state=True, return_states=True)

    assert torch.autograd.gradgradcheck(scan, tuple(case.tensors().values()), fast_mode=True)


@pytest.mark.skipif("c" not in FUSED, reason="the core was not compiled")
def test_all_second_derivatives_of_the_convolution():
    tensors = [normal(*shape).requires_grad_() for shape in ((2, 4, 3), (3, 3), (3,), (2, 2, 3))]
    assert torch.autograd.gradgradcheck(
        lambda x, weight, bias, start: causal_conv(x, weight, bias, initial_state=start, backend="c"), tensors
    )


@pytest.mark.parametrize("backend", FUSED)
def test_float32_is_float32(backend: str):
    case = make()
    y, slope = jvp(lambda u: case.but(u=u).scan(backend), (case.u,), (torch.ones_like(case.u),))[:2]
    assert y.dtype == slope.dtype == torch.float32
    torch.testing.assert_close(y, case.scan(backend), rtol=1e-5, atol=1e-6)


def test_an_operator_called_by_itself_refuses_tangents():
    x, weight = normal(*SHAPE), normal(3, 2)
    with forward_ad.dual_level(), pytest.raises(InputError, match=r"call the functions of iclab\.ops"):
        torch.ops.iclab.causal_conv(forward_ad.make_dual(x, x), weight, None, None, True)


@pytest.mark.parametrize("kind", ["mamba", "constant_delta", "linear"])
def test_backbones(kind: str):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        selectivity = "constant_delta" if kind == "constant_delta" else "full"
        model = LinearAttention(6, 2) if kind == "linear" else Mamba(6, 2, selectivity=selectivity)
    model = model.double()
    x, tangent = normal(2, 7, 6), normal(2, 7, 6, seed=2)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}

    def loss(inputs: Tensor, weights: dict[str, Tensor]) -> Tensor:
        return functional_call(model, weights, (inputs,)).pow(3).sum()

    slope = (grad(loss)(x, weights) * tangent).sum()
    torch.testing.assert_close(jvp(lambda a: loss(a, weights), (x,), (tangent,))[1], slope)
    torch.testing.assert_close(by_dual(lambda a: model(a).pow(3).sum(), x, tangent), slope)  # frozen, not functional
    step = {name: normal(*weight.shape, seed=5) for name, weight in weights.items()}
    slope = sum((g * step[name]).sum() for name, g in grad(loss, argnums=1)(x, weights).items())
    torch.testing.assert_close(jvp(lambda w: loss(x, w), (weights,), (step,))[1], slope)


def test_attention_on_whole_tokens():
    prompts = OutlierClassification(7, relevant=2, irrelevant=2).sample(Stream(0), 3, 6, dtype=torch.float64)
    model = GatedLinearAttention(7, stream=Stream(1)).double()
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    step = {name: normal(*weight.shape, seed=5) for name, weight in weights.items()}

    def loss(weights: dict[str, Tensor]) -> Tensor:
        return functional_call(model, weights, (prompts,)).pow(2).sum()

    def shifted(size: float) -> Tensor:
        return loss({name: weight + size * step[name] for name, weight in weights.items()})

    slope = sum((g * step[name]).sum() for name, g in grad(loss)(weights).items())
    torch.testing.assert_close(jvp(loss, (weights,), (step,))[1], slope)
    torch.testing.assert_close(slope, (shifted(1e-6) - shifted(-1e-6)) / 2e-6, rtol=1e-6, atol=1e-8)


def hold_by_series(step: float, rate: float) -> tuple[float, float, float]:
    """``(exp(x) - 1)/A`` with ``x = step A``, and its derivatives by ``A`` and ``step``, in exact fractions."""
    x, power, factorial = Fraction(step) * Fraction(rate), Fraction(1), Fraction(1)
    gain = curve = slope = Fraction(0)
    for k in range(60):
        slope += power / factorial
        gain += power / (factorial * (k + 1))
        curve += power * (k + 1) / (factorial * (k + 1) * (k + 2))
        power, factorial = power * x, factorial * (k + 1)
    return float(Fraction(step) * gain), float(Fraction(step) ** 2 * curve), float(slope)


@pytest.mark.parametrize("backend", ["reference", *FUSED])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_hold_at_rates_down_to_zero(backend: str, dtype: torch.dtype):
    tolerance = 1e-6 if dtype == torch.float32 else 2e-15
    one = torch.ones(1, 1, 1, dtype=dtype)
    for step in (1e-10, 1e-3, 0.774, 1.0, 30.0):
        for rate in (-5e-324, -1e-300, -1e-38, -1e-24, -1e-16, -1e-12, -1e-8, -1e-4, -0.1, -0.4, -0.5, -0.6, -2.0):
            delta = torch.full((1, 1, 1), step, dtype=dtype).requires_grad_()
            A = torch.full((1, 1), rate, dtype=dtype).requires_grad_()
            if step * rate < -8 or A.item() == 0:
                continue
            y = selective_scan(one, delta, A, one, one, discretisation="zoh", backend=backend).sum()
            found = [y.item(), *[slope.item() for slope in torch.autograd.grad(y, (A, delta))]]
            assert found == pytest.approx(hold_by_series(delta.item(), A.item()), rel=tolerance), (step, rate)
