"""The scan's two Triton kernels; needs the package ``triton``.

A program is one row of the batch and ``BLOCK_D`` channels; it walks through all tokens with its state
``(BLOCK_D, BLOCK_S)`` in registers. Blocks may stick out beyond the last channel and state: what is loaded there makes
states and gradients 0. Arguments are pointers, ``None`` where the call has no such tensor; ``*_batch`` and ``*_time``
are strides of tensors ``(B, L, D or S)`` whose last dimension is contiguous, all other tensors are contiguous.
``length`` is a 64-bit number so that all offsets are.
"""

from __future__ import annotations

import triton  # pyrefly: ignore[missing-import]
import triton.language as tl  # pyrefly: ignore[missing-import]

from iclab.ops.scan.gpu_functions import decay, hold_curve, hold_gain, sigmoid, step_size, step_slope


@triton.jit
def _load_or_zero(pointer, offsets, mask, NUMBER: tl.constexpr):
    if pointer is None:
        values = tl.zeros(mask.shape, NUMBER)
    else:
        values = tl.load(pointer + offsets, mask=mask, other=0.0)
    return values


@triton.jit
def _advance(h, step, input, in_vector, rate, HOLD: tl.constexpr, PRECISE: tl.constexpr):
    """The state after a token from the one before it, and ``exp(step rate)`` and the gain that made it."""
    e = decay(step[:, None], rate, PRECISE)
    if HOLD:
        gain = hold_gain(step[:, None], rate, e, PRECISE)
    else:
        gain = step[:, None]
    return e * h + gain * input[:, None] * in_vector[None, :], e, gain


@triton.jit(do_not_specialize=["length"])
def scan_forward(
    u, delta, A, B, C, D, delta_bias, z, initial, y, last, all_states, checkpoints,
    u_batch, u_time, delta_batch, delta_time, B_batch, B_time, C_batch, C_time, z_batch, z_time,
    length: tl.int64, channels, states,
    SOFTPLUS: tl.constexpr, HOLD: tl.constexpr, PRECISE: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """``y``, and where there is a pointer the last state, all states, and the state before each chunk."""
    NUMBER: tl.constexpr = u.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    n = tl.arange(0, BLOCK_S)
    in_d, in_n = d < channels, n < states
    both = in_d[:, None] & in_n[None, :]
    place, size = d[:, None] * states + n[None, :], channels * states
    rate = tl.load(A + place, mask=both, other=-1.0)
    skip = _load_or_zero(D, d, in_d, NUMBER)
    bias = _load_or_zero(delta_bias, d, in_d, NUMBER)
    h = _load_or_zero(initial, row * size + place, both, NUMBER)
    chunks = (length + CHUNK - 1) // CHUNK
    for chunk in range(chunks):
        if checkpoints is not None:
            tl.store(checkpoints + (row * chunks + chunk) * size + place, h, mask=both)
        for t in range(chunk * CHUNK, tl.minimum(chunk * CHUNK + CHUNK, length)):
            input = tl.load(u + row * u_batch + t * u_time + d, mask=in_d, other=0.0)
            raw = tl.load(delta + row * delta_batch + t * delta_time + d, mask=in_d, other=0.0) + bias
            in_vector = tl.load(B + row * B_batch + t * B_time + n, mask=in_n, other=0.0)
            out_vector = tl.load(C + row * C_batch + t * C_time + n, mask=in_n, other=0.0)
            h, _, _ = _advance(h, step_size(raw, SOFTPLUS, PRECISE), input, in_vector, rate, HOLD, PRECISE)
            result = tl.sum(h * out_vector[None, :], 1) + skip * input
            if z is not None:
                gate = tl.load(z + row * z_batch + t * z_time + d, mask=in_d, other=0.0)
                result *= gate * sigmoid(gate, PRECISE)
            tl.store(y + (row * length + t) * channels + d, result, mask=in_d)
            if all_states is not None:
                tl.store(all_states + (row * length + t) * size + place, h, mask=both)
    if last is not None:
        tl.store(last + row * size + place, h, mask=both)


@triton.jit(do_not_specialize=["length"])
def scan_backward(
    u, delta, A, B, C, D, delta_bias, z, checkpoints, grad_y, grad_last, grad_states,
    grad_u, grad_delta, grad_z, grad_initial, part_A, part_B, part_C, part_D, part_bias, scratch,
    u_batch, u_time, delta_batch, delta_time, B_batch, B_time, C_batch, C_time, z_batch, z_time,
    grad_y_batch, grad_y_time, length: tl.int64, channels, states,
    SOFTPLUS: tl.constexpr, HOLD: tl.constexpr, PRECISE: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Gradients of what differs from channel to channel, and this program's part of those that are sums.

    ``part_A (B, D, S)``, ``part_D, part_bias (B, D)``, ``part_B, part_C (channel blocks, B, L, S)``. Chunks go from the
    last to the first: the states before the tokens of one are computed again into ``scratch``
    ``(B, channel blocks, CHUNK, BLOCK_D, BLOCK_S)``, then it is walked back. A thread may read there what another one
    wrote, hence the barriers. As in ``docs/scan.md``, ``q = dL/dh_t`` and ``g = dL/d(C_t h_t + D u_t)``.
    """
    NUMBER: tl.constexpr = u.dtype.element_ty
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    d = block * BLOCK_D + tl.arange(0, BLOCK_D)
    n = tl.arange(0, BLOCK_S)
    in_d, in_n = d < channels, n < states
    both = in_d[:, None] & in_n[None, :]
    place, size = d[:, None] * states + n[None, :], channels * states
    slot = BLOCK_D * BLOCK_S
    own = scratch + (row * tl.num_programs(1) + block) * CHUNK * slot
    own += tl.arange(0, BLOCK_D)[:, None] * BLOCK_S + n[None, :]
    rate = tl.load(A + place, mask=both, other=-1.0)
    skip = _load_or_zero(D, d, in_d, NUMBER)
    bias = _load_or_zero(delta_bias, d, in_d, NUMBER)
    grad_h = _load_or_zero(grad_last, row * size + place, both, NUMBER)
    sum_A = tl.zeros([BLOCK_D, BLOCK_S], NUMBER)
    sum_D = tl.zeros([BLOCK_D], NUMBER)
    sum_bias = tl.zeros([BLOCK_D], NUMBER)
    chunks = (length + CHUNK - 1) // CHUNK
    for later in range(chunks):
        chunk = chunks - 1 - later
        first, end = chunk * CHUNK, tl.minimum(chunk * CHUNK + CHUNK, length)
        h = tl.load(checkpoints + (row * chunks + chunk) * size + place, mask=both, other=0.0)
        for t in range(first, end):
            tl.store(own + (t - first) * slot, h)
            input = tl.load(u + row * u_batch + t * u_time + d, mask=in_d, other=0.0)
            raw = tl.load(delta + row * delta_batch + t * delta_time + d, mask=in_d, other=0.0) + bias
            in_vector = tl.load(B + row * B_batch + t * B_time + n, mask=in_n, other=0.0)
            h, _, _ = _advance(h, step_size(raw, SOFTPLUS, PRECISE), input, in_vector, rate, HOLD, PRECISE)
        tl.debug_barrier()
        for after in range(end - first):
            t = end - 1 - after
            before = tl.load(own + (t - first) * slot)
            input = tl.load(u + row * u_batch + t * u_time + d, mask=in_d, other=0.0)
            raw = tl.load(delta + row * delta_batch + t * delta_time + d, mask=in_d, other=0.0) + bias
            in_vector = tl.load(B + row * B_batch + t * B_time + n, mask=in_n, other=0.0)
            out_vector = tl.load(C + row * C_batch + t * C_time + n, mask=in_n, other=0.0)
            step = step_size(raw, SOFTPLUS, PRECISE)
            _, e, gain = _advance(before, step, input, in_vector, rate, HOLD, PRECISE)

            token = (row * length + t) * channels + d
            g = tl.load(grad_y + row * grad_y_batch + t * grad_y_time + d, mask=in_d, other=0.0)
            if z is not None:
                gate = tl.load(z + row * z_batch + t * z_time + d, mask=in_d, other=0.0)
                opening = sigmoid(gate, PRECISE)
                ungated = tl.sum(h * out_vector[None, :], 1) + skip * input
                tl.store(grad_z + token, g * ungated * opening * (1.0 + gate * (1.0 - opening)), mask=in_d)
                g *= gate * opening

            q = grad_h + g[:, None] * out_vector[None, :]
            q += _load_or_zero(grad_states, (row * length + t) * size + place, both, NUMBER)
            vectors = ((block * tl.num_programs(0) + row) * length + t) * states + n
            tl.store(part_C + vectors, tl.sum(g[:, None] * h, 0), mask=in_n)
            tl.store(part_B + vectors, tl.sum(q * (gain * input[:, None]), 0), mask=in_n)
            grad_h = q * e
            by_exponent = grad_h * before
            sum_A += by_exponent * step[:, None]
            grad_step = tl.sum(by_exponent * rate, 1)
            if HOLD:
                grad_input = tl.sum(q * gain * in_vector[None, :], 1)
                by_gain = q * input[:, None] * in_vector[None, :]
                sum_A += by_gain * hold_curve(step[:, None], rate, e, gain, PRECISE)
                grad_step += tl.sum(by_gain * e, 1)
            else:
                by_drive = tl.sum(q * in_vector[None, :], 1)
                grad_input = by_drive * step
                grad_step += by_drive * input
            grad_raw = grad_step * step_slope(raw, SOFTPLUS, PRECISE)
            tl.store(grad_u + token, grad_input + g * skip, mask=in_d)
            tl.store(grad_delta + token, grad_raw, mask=in_d)
            sum_D += g * input
            sum_bias += grad_raw
            h = before
        tl.debug_barrier()
    tl.store(part_A + row * size + place, sum_A, mask=both)
    if part_D is not None:
        tl.store(part_D + row * channels + d, sum_D, mask=in_d)
    if part_bias is not None:
        tl.store(part_bias + row * channels + d, sum_bias, mask=in_d)
    if grad_initial is not None:
        tl.store(grad_initial + row * size + place, grad_h, mask=both)
