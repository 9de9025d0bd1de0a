"""Alignment of the state with the hidden direction."""
