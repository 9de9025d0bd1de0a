"""The selective scan of Mamba and the causal convolution before it, with a backend for each machine."""

from iclab.ops.backends import BACKENDS, backend_in_use, backends
from iclab.ops.convolution.causal_conv import causal_conv
from iclab.ops.scan.selective_scan import selective_scan

__all__ = ["BACKENDS", "backend_in_use", "backends", "causal_conv", "selective_scan"]
