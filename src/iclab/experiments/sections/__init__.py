"""Sections of configuration that several studies share, and how each becomes the object it describes."""
