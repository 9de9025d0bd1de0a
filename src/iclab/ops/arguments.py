"""What callers hand over is checked here, once, before any kernel sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.ops.scan.kernel import ScanInputs

DISCRETISATIONS = ("mamba", "zoh")
ACTIVATIONS = ("silu", None)
_REQUIRED = ("u", "delta", "A", "B", "C", "x", "weight")


def check_scan(inputs: ScanInputs, discretisation: str) -> None:
    """Raise `InputError` for shapes, types or devices that disagree, an unknown rule, or an entry of ``A`` >= 0.

    The entries are looked at where that costs nothing to wait for: on the CPU, outside of ``torch.compile``.
    """
    _check_tensors(inputs._asdict())
    u, A = inputs.u, inputs.A
    if discretisation not in DISCRETISATIONS:
        raise InputError(f"discretisation is {discretisation!r}; expected one of {', '.join(DISCRETISATIONS)}")
    if u.dim() != 3 or 0 in u.shape[1:]:
        raise InputError(f"u has shape {_shape(u)}; expected (B, L, D) with at least one token and one channel")
    if A.dim() != 2 or A.shape[1] == 0:
        raise InputError(f"A has shape {_shape(A)}; expected (D, S) with a state size S of at least 1")
    (batch, length, channels), states = u.shape, A.shape[1]
    expected = {
        "delta": ("(B, L, D)", (batch, length, channels)),
        "A": ("(D, S)", (channels, states)),
        "B": ("(B, L, S)", (batch, length, states)),
        "C": ("(B, L, S)", (batch, length, states)),
        "D": ("(D,)", (channels,)),
        "delta_bias": ("(D,)", (channels,)),
        "z": ("(B, L, D)", (batch, length, channels)),
        "initial_state": ("(B, D, S)", (batch, channels, states)),
    }
    _check_alike("u", u, inputs._asdict(), expected)
    if _is_plain(A) and A.device.type == "cpu":
        check_rates(A)


def check_convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, initial_state: Tensor | None, activation: str | None
) -> None:
    """Raise `InputError` for shapes, types or devices that disagree, or an unknown activation."""
    tensors = {"x": x, "weight": weight, "bias": bias, "initial_state": initial_state}
    _check_tensors(tensors)
    if activation not in ACTIVATIONS:
        raise InputError(f"activation is {activation!r}; expected 'silu' or None")
    if x.dim() != 3 or 0 in x.shape[1:]:
        raise InputError(f"x has shape {_shape(x)}; expected (B, L, D) with at least one token and one channel")
    if weight.dim() != 2 or weight.shape[1] == 0:
        raise InputError(f"weight has shape {_shape(weight)}; expected (D, K) with at least one tap")
    (batch, _, channels), taps = x.shape, weight.shape[1]
    expected = {
        "weight": ("(D, K)", (channels, taps)),
        "bias": ("(D,)", (channels,)),
        "initial_state": ("(B, K - 1, D)", (batch, taps - 1, channels)),
    }
    _check_alike("x", x, tensors, expected)


def check_rates(A: Tensor) -> None:
    """Raise `InputError` where an entry of ``A`` is not negative: the state would grow without bound."""
    wrong = A.detach() >= 0
    if bool(wrong.any()):
        place = _first_place(wrong)
        raise InputError(f"A{place} is {A[tuple(place)].item():g}; expected every entry < 0, as in A = -exp(A_log)")


def check_finite(tensors: Mapping[str, Tensor | None]) -> None:
    """Raise `InputError` for the first number that is not finite, naming tensor and place."""
    for name, tensor in tensors.items():
        if tensor is None or bool(torch.isfinite(tensor).all()):
            continue
        place = _first_place(~torch.isfinite(tensor))
        raise InputError(
            f"{name}{place} is {tensor[tuple(place)].item()}; expected finite numbers; look at what computed {name}"
        )


def _check_tensors(given: Mapping[str, Any]) -> None:
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor) and (tensor is not None or name in _REQUIRED):
            raise InputError(f"{name} is a {type(tensor).__name__}; expected a tensor, as torch.as_tensor makes one")


def _check_alike(
    first_name: str,
    first: Tensor,
    tensors: Mapping[str, Tensor | None],
    expected: Mapping[str, tuple[str, tuple[int, ...]]],
) -> None:
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if not tensor.is_floating_point():
            raise InputError(f"{name} is of type {tensor.dtype}; expected a floating point tensor")
        if tensor.device != first.device:
            raise InputError(f"{name} is on {tensor.device} and {first_name} on {first.device}; move one of them")
        if name in expected and tensor.shape != expected[name][1]:
            letters, shape = expected[name]
            raise InputError(
                f"{name} has shape {_shape(tensor)}; expected {letters} = {tuple(map(int, shape))} "
                f"beside {first_name} of shape {_shape(first)}"
            )


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def _first_place(where: Tensor) -> list[int]:
    return [int(i) for i in where.nonzero()[0]]


def _is_plain(tensor: Any) -> bool:
    """Whether numbers can be looked at: neither compiled nor traced nor transformed nor without storage."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return False
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # no public test exists
    return not wrapped and type(tensor) in (Tensor, torch.nn.Parameter) and not tensor.is_meta
