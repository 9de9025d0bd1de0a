"""Inputs of the scan for its tests, and what the reference makes of them."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from iclab.ops import backends, selective_scan

FUSED = [name for name in ("torch", "c") if backends()[name] == "available"]
NAMES = ("u", "delta", "A", "B", "C", "D", "delta_bias", "z", "initial_state")


@dataclass(frozen=True)
class Case:
    """All inputs of a scan, the optional ones perhaps none."""

    u: Tensor
    delta: Tensor
    A: Tensor
    B: Tensor
    C: Tensor
    D: Any
    delta_bias: Any
    z: Any
    initial_state: Any
    softplus: bool = True
    rule: str = "mamba"

    def tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: values[name] for name in NAMES if values[name] is not None}

    def map(self, function: Callable[[Tensor], Tensor]) -> "Case":
        return self.but(**{name: function(tensor) for name, tensor in self.tensors().items()})

    def but(self, **changes: Any) -> "Case":
        return replace(self, **changes)

    def leaves(self, dtype: torch.dtype | None = None) -> "Case":
        return self.map(lambda tensor: tensor.detach().to(dtype or tensor.dtype).clone().requires_grad_())

    def scan(self, backend: str, **more: Any) -> Any:
        return selective_scan(
            self.u, self.delta, self.A, self.B, self.C, self.D, delta_bias=self.delta_bias, z=self.z,
            initial_state=self.initial_state, delta_softplus=self.softplus, discretisation=self.rule,
            backend=backend, **more,
        )  # fmt: skip


def make(
    batch=2, length=19, channels=5, states=3, dtype=torch.float32, full=True, softplus=True, rule="mamba", seed=0
) -> Case:
    """Step sizes of about 1/2, decays of all speeds."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    delta = normal(batch, length, channels)
    optional = (normal(channels), normal(channels), normal(batch, length, channels), normal(batch, channels, states))
    if not softplus:
        delta, optional = delta.abs(), (optional[0], optional[1].abs(), *optional[2:])
    return Case(
        normal(batch, length, channels), delta, -torch.exp(2 * normal(channels, states)), normal(batch, length, states),
        normal(batch, length, states), *(optional if full else (None,) * 4), softplus=softplus, rule=rule,
    )  # fmt: skip


def run(case: Case, backend: str) -> dict[str, Tensor]:
    """Outputs, states, and the gradients of a loss that weighs each of them."""
    case = case.leaves()
    outputs = dict(
        zip(("y", "last", "states"), case.scan(backend, return_last_state=True, return_states=True), strict=True)
    )
    generator = torch.Generator().manual_seed(99)
    loss = torch.zeros((), dtype=torch.float64)
    for output in outputs.values():
        loss = loss + (output.double() * torch.randn(output.shape, generator=generator, dtype=torch.float64)).sum()
    leaves = case.tensors()
    grads = torch.autograd.grad(loss, list(leaves.values()))
    return {name: tensor.detach() for name, tensor in outputs.items()} | dict(zip(leaves, grads, strict=True))


def largest_error(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Of all results, relative to the largest number of each."""
    assert found.keys() == expected.keys()
    worst = 0.0
    for name, tensor in found.items():
        assert tensor.shape == expected[name].shape, name
        assert torch.isfinite(tensor).all(), name
        if tensor.numel():
            scale = expected[name].abs().max().clamp(min=1e-30)
            worst = max(worst, float((tensor.double() - expected[name].double()).abs().max() / scale))
    return worst
