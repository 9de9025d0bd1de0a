"""`selective_scan`: arguments are checked, a backend is chosen, its kernel is called."""

from __future__ import annotations

from typing import Any, Literal, overload

import torch
from torch import Tensor

from iclab.memory import check_memory
from iclab.ops.arguments import check_finite as check_numbers
from iclab.ops.arguments import check_rates, check_scan
from iclab.ops.backends import announce, choose
from iclab.ops.scan import peer, reference
from iclab.ops.scan.kernel import Options, ScanInputs
from iclab.ops.scan.operator import FAILURES, call, explained
from iclab.ops.transforms import differentiates_forward


@overload
def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    z: Tensor | None = None,
    initial_state: Tensor | None = None,
    return_last_state: Literal[False] = False,
    return_states: Literal[False] = False,
    discretisation: str = "mamba",
    backend: str = "auto",
    check_finite: bool = False,
) -> Tensor: ...


@overload
def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    z: Tensor | None = None,
    initial_state: Tensor | None = None,
    return_last_state: bool = False,
    return_states: bool = False,
    discretisation: str = "mamba",
    backend: str = "auto",
    check_finite: bool = False,
) -> Any: ...


def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    z: Tensor | None = None,
    initial_state: Tensor | None = None,
    return_last_state: bool = False,
    return_states: bool = False,
    discretisation: str = "mamba",
    backend: str = "auto",
    check_finite: bool = False,
) -> Any:
    """Run the selective state space recurrence of Mamba over ``L`` tokens.

    ``h_t = exp(delta_t A) h_{t-1} + Bbar_t u_t`` and ``y_t = (C_t . h_t + D u_t) silu(z_t)``, for each channel with its
    own state of ``S`` numbers; without ``D`` or ``z`` that term or factor is left out. ``delta`` is taken as it is, or
    as ``softplus(delta + delta_bias)``.

    Args:
        u: inputs ``(B, L, D)``, for a batch of ``B >= 0``.
        delta: step sizes ``(B, L, D)``.
        A: rates ``(D, S)``, all negative.
        B, C: input and output vectors of each token ``(B, L, S)``.
        D: skip ``(D,)``.
        delta_bias: added to ``delta``, ``(D,)``.
        delta_softplus: whether ``delta`` then goes through softplus.
        z: gate ``(B, L, D)``.
        initial_state: state before the first token ``(B, D, S)``; zero by default.
        return_last_state: also return the state after the last token ``(B, D, S)``.
        return_states: also return the state after each token ``(B, L, D, S)``, for probes.
        discretisation: ``"mamba"``, ``Bbar_t = delta_t B_t``, or ``"zoh"``, ``(exp(delta_t A) - 1)/A B_t``.
        backend: ``"auto"`` or one of `iclab.ops.BACKENDS`.
        check_finite: look for numbers that are not finite first.

    Returns:
        ``y (B, L, D)`` of ``u``'s type; with states asked for, ``(y, last state, states)`` as far as asked. States are
        float32, or float64 where an input is; so is the computation. All are differentiable in all inputs, once, or
        with ``"reference"`` any number of times.

    Raises:
        InputError: shapes that disagree, an entry of ``A`` >= 0, a number that is not finite (if looked for), or a
            backend that is missing; memory that does not suffice.

    Reference: Gu and Dao 2023, Algorithm 2 and equation (4); ``docs/scan.md``.
    """
    given = ScanInputs(u, delta, A, B, C, D, delta_bias, z, initial_state)
    check_scan(given, discretisation)
    if check_finite:
        check_numbers(given._asdict())
        check_rates(A)
    precise = any(tensor is not None and tensor.dtype == torch.float64 for tensor in given)
    dtype = torch.float64 if precise else torch.float32
    if return_states and u.device.type == "cpu" and not torch.compiler.is_compiling():
        check_memory("the states of all tokens", u.numel() * A.shape[1] * dtype.itemsize)
    asked = (delta_softplus, discretisation == "zoh", return_last_state, return_states)
    try:
        return _computed(given, asked, dtype, backend)
    except FAILURES as error:
        raise explained(error, given) from None


def _computed(given: ScanInputs, asked: tuple[bool, bool, bool, bool], dtype: torch.dtype, backend: str) -> Any:
    """What `selective_scan` returns, once its arguments are known to be good; ``asked`` are the first `Options`."""
    u, inputs = given.u, given.to(dtype)
    recording = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in given)
    options = Options(*asked, recording)
    name = choose(backend, u.device.type, full=bool(peer.lacks(inputs, options)))
    if backend == "auto" and not torch.compiler.is_compiling():
        announce(name, u.device.type)
    if name == "reference" or differentiates_forward():
        y, states = reference.scan(*inputs, options.softplus, options.zero_order_hold)
        last = states[:, -1].to(dtype)
        states = states.to(dtype)
    elif name == "mamba_ssm":
        y, last = peer.scan(inputs, options)
        states = None
    else:
        y, last, states, _ = call("selective_scan", *inputs, *options, name)
    results = [y.to(u.dtype)]
    if options.last_state:
        results.append(last)
    if options.all_states:
        results.append(states)
    return results[0] if len(results) == 1 else tuple(results)
