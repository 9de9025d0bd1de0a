"""The scan and the convolution under PyTorch's own machinery: opcheck, compilation, transformations, memory."""

import pytest
import torch

from iclab.errors import InputError
from iclab.ops import causal_conv, selective_scan
from scan_cases import FUSED, Case, make

every_backend = pytest.mark.parametrize("backend", FUSED)


def operator_arguments(case: Case, backend: str, checkpoints: bool = True) -> tuple:
    return (*case.tensors().values(), case.softplus, case.rule == "zoh", True, True, checkpoints, backend)


@every_backend
@pytest.mark.parametrize("full", [True, False])
def test_opcheck_of_the_scan(backend: str, full: bool):
    case = make(full=full).leaves()
    tensors = [getattr(case, name) for name in ("u", "delta", "A", "B", "C", "D", "delta_bias", "z", "initial_state")]
    options = (True, False, True, True, True, backend)
    torch.library.opcheck(torch.ops.iclab.selective_scan.default, (*tensors, *options))
    tensors = [None if tensor is None else tensor.detach() for tensor in tensors]
    kept = torch.ops.iclab.selective_scan(*tensors, *options)
    grads = (kept[3], kept[0], kept[1], kept[2])
    torch.library.opcheck(torch.ops.iclab.selective_scan_backward.default, (*grads, *tensors, *options))


@pytest.mark.skipif("c" not in FUSED, reason="the core was not compiled")
def test_opcheck_of_the_convolution():
    x, weight, bias, start = (torch.randn(shape, requires_grad=True) for shape in ((2, 6, 5), (5, 4), (5,), (2, 3, 5)))
    torch.library.opcheck(torch.ops.iclab.causal_conv.default, (x, weight, bias, start, True))
    plain = [tensor.detach() for tensor in (x, weight, bias, start)]
    torch.library.opcheck(torch.ops.iclab.causal_conv_backward.default, (plain[0], *plain, True))


@every_backend
def test_compiled_whole(backend: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ICLAB_SCAN", backend)

    def layer(u, delta, A, B, C, weight):
        return selective_scan(causal_conv(u, weight), delta, -torch.exp(A), B, C, delta_softplus=True)

    case = make(full=False)
    inputs = [case.u, case.delta, (-case.A).log(), case.B, case.C, torch.ones(5, 4)]
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    results = []
    for function in (layer, compiled):
        leaves = [tensor.clone().requires_grad_() for tensor in inputs]
        y = function(*leaves)
        y.square().sum().backward()
        results.append([y.detach(), *[leaf.grad for leaf in leaves]])
    for eager, whole in zip(*results, strict=True):
        assert torch.allclose(eager, whole, rtol=1e-6, atol=1e-6)


@every_backend
def test_gradients_of_each_sample_by_vmap(backend: str):
    case = make(dtype=torch.float64)

    def loss(u: torch.Tensor, A: torch.Tensor) -> torch.Tensor:
        y = selective_scan(u[None], case.delta[:1], A, case.B[:1], case.C[:1], delta_softplus=True, backend=backend)
        return causal_conv(y, A, backend=backend).square().sum()

    each = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)), (0, None))(case.u, case.A)
    for sample in range(2):
        u, A = case.u[sample].clone().requires_grad_(), case.A.clone().requires_grad_()
        expected = torch.autograd.grad(loss(u, A), (u, A))
        for found, wanted in zip(each, expected, strict=True):
            assert torch.allclose(found[sample], wanted, rtol=1e-12)


@every_backend
def test_memory_kept_for_the_backward_pass(backend: str):
    """What autograd keeps beyond the inputs is less than an eighth of all states."""
    case = make(batch=3, length=100, channels=64, states=16).leaves()
    inputs = {tensor.untyped_storage().data_ptr() for tensor in case.tensors().values()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in inputs:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = case.scan(backend)
    tape = 4 * 3 * 100 * 64 * 16
    assert y.requires_grad
    assert 0 < sum(kept.values()) <= tape / 8


@every_backend
def test_nothing_is_kept_without_gradients(backend: str):
    case = make()
    with torch.no_grad():
        y = case.leaves().scan(backend)
    assert not y.requires_grad
    assert torch.equal(y, case.scan(backend))
    arguments = operator_arguments(case.leaves(), backend, checkpoints=False)
    with pytest.raises(InputError, match="without keeping states"):
        torch.ops.iclab.selective_scan(*arguments)[0].sum().backward()
