"""Memory that the process keeps, counted in page faults, each case in a process of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator alone can be told")

FAULTS = """
import resource
import torch
from iclab.memory import keep_freed_memory

kept = keep_freed_memory()
def step():
    parts = [torch.ones(size, 1 << 20) for size in (8, 12, 16)]
    del parts
for _ in range(8):  # until the heap holds all of it
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    step()
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**variables: str) -> tuple[int, int]:
    """Whether memory is kept, and the page faults of taking and freeing 144 MB three times."""
    own = ("MALLOC_", "GLIBC_TUNABLES")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    told = subprocess.run(
        [sys.executable, "-c", FAULTS], env=clean | variables, capture_output=True, text=True, check=True
    )
    kept, count = told.stdout.split()
    return int(kept), int(count)


def test_kept_memory_is_not_mapped_again() -> None:
    kept, count = faults()
    assert kept == 1
    assert count < 100


def test_settings_of_the_environment_stay() -> None:
    kept, count = faults(MALLOC_TRIM_THRESHOLD_="131072")
    assert kept == 0
    assert count > 1000
