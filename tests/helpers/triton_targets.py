"""Compiles the Triton kernels for GPUs that need not be here, as calls of the scan would; a script.

Triton's interpreter accepts more than its compiler. A driver that names a device and runs nothing stands in for CUDA's.
Prints a line for each: name, compute capability, whether there is machine code, whether threads wait for each other.
"""

from types import SimpleNamespace
from unittest.mock import patch

import torch
import triton  # pyrefly: ignore[missing-import]
from triton.backends.compiler import GPUTarget  # pyrefly: ignore[missing-import]

from iclab.ops.scan import gpu
from iclab.ops.scan.kernel import Options, ScanInputs
from scan_cases import make

COMPILED = []


class OnlyCompiled:
    """A kernel whose launch ends before the device would be asked to run it."""

    def __init__(self, kernel) -> None:
        self.kernel = kernel

    def __getitem__(self, grid):
        return lambda *args, **options: COMPILED.append(self.kernel.warmup(*args, grid=grid, **options))


def compile_both(case, capability: int, states: bool) -> None:
    driver = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", capability, 32),
        get_current_device=lambda: capability,  # what is compiled is kept for each device
        get_current_stream=lambda device: None,
    )
    triton.runtime.driver.set_active(driver)
    inputs = ScanInputs(*[getattr(case, name) for name in ScanInputs._fields])
    options = Options(case.softplus, case.rule == "zoh", states, states, True)
    outputs = gpu.forward(inputs, options)
    grads = (outputs.last_state, outputs.all_states) if states else (None, None)
    gpu.backward(inputs, options, outputs.checkpoints, outputs.y, *grads)


if __name__ == "__main__":
    kernels = gpu._kernels()
    compiled_only = SimpleNamespace(
        scan_forward=OnlyCompiled(kernels.scan_forward), scan_backward=OnlyCompiled(kernels.scan_backward)
    )
    with patch.object(gpu, "_kernels", lambda: compiled_only):
        compile_both(make(channels=64, states=16), 80, True)
        compile_both(make(channels=64, states=16, full=False), 90, False)
        compile_both(make(channels=3, states=1, softplus=False, rule="zoh"), 90, True)
        compile_both(make(channels=1, states=257, rule="zoh", full=False, dtype=torch.float64), 80, False)
    for compiled in COMPILED:
        code = compiled.asm
        print(compiled.name, compiled.metadata.target.arch, len(code["cubin"]) > 0, "bar.sync" in code["ptx"])
