"""What commands print: strict JSON, and paths whatever their bytes."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click


def print_json(content: object) -> None:
    """Print JSON that any reader accepts: numbers that are not finite, which JSON lacks, become ``null``."""
    click.echo(json.dumps(_finite(content), indent=1, allow_nan=False))


def print_path(path: Path) -> None:
    """Print a path byte for byte, also one that is no UTF-8.

    Where the reader is gone, the exit code has still to tell how the run ended, so nothing is raised.
    """
    try:
        click.echo(os.fsencode(path))
    except BrokenPipeError:
        # What is buffered would be tried again, and fail again, when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _finite(content: object) -> object:
    if isinstance(content, float) and not math.isfinite(content):
        return None
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return content
