"""Typed configuration: keys, overrides, validation, identity, limits."""
