"""Weights and settings of other libraries' models."""
