"""The one part that pyproject.toml cannot say: the optional C core of the selective scan.

Without a compiler the installation succeeds and the scan runs in PyTorch.
"""

import sys

from setuptools import Extension, setup

FLAGS = ["/O2"] if sys.platform == "win32" else ["-O3", "-g0", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math"]
HEADERS = [
    "_lanes.h",
    "_forward.h",
    "_backward.h",
    "_convolution.h",
    "_hermite_state.h",
    "_gate_weights.h",
    "_norm.h",
    "_exports.h",
    "_kernels.h",
]

setup(
    ext_modules=[
        Extension(
            "iclab.ops.core._core",
            sources=["src/iclab/ops/core/_core.c"],
            depends=[f"src/iclab/ops/core/{name}" for name in HEADERS],
            extra_compile_args=FLAGS,
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
