"""The selective scan of Mamba and the causal convolution before it, with a backend for each machine."""

from iclab.scan.backends import BACKENDS, backend_in_use, backends
from iclab.scan.convolution import causal_conv
from iclab.scan.dispatch import selective_scan

__all__ = ["BACKENDS", "backend_in_use", "backends", "causal_conv", "selective_scan"]
