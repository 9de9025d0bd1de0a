"""ICLab: a laboratory for in-context learning in state space models."""

__version__ = "0.1.0"
