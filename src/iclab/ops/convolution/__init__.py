"""The short causal convolution before the scan."""
