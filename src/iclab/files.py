"""Files that are either complete or absent: temporary name, fsync, rename."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

_RANDOM_BYTES = 8


def write_atomic(path: Path | str, data: bytes | str) -> Path:
    """Write ``data`` to ``path`` so that a reader, or a machine that loses power, sees the old file or the new one.

    The bytes go to a hidden temporary file in the same folder, are synced, and take the name in one rename. Text is
    encoded as UTF-8. The folder must exist.

    Returns:
        ``path``.

    Raises:
        OSError: naming ``path``: the folder is missing or read-only, or the disk is full. The temporary file is
            removed and an older file of that name is left as it was.
    """
    target = Path(path)
    content = data.encode("utf-8") if isinstance(data, str) else data
    # The name stays short: the target's own name may already be as long as the file system allows.
    temporary = target.parent / f".{secrets.token_hex(_RANDOM_BYTES)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            # The name of the temporary file says nothing to anybody, and a full disk names no file at all.
            error.filename, error.filename2 = str(target), None
        raise
    _sync_folder(target.parent)
    return target


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """An `OSError` raised inside names ``path``, as one of ``write`` or ``fsync`` by itself does not."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def is_temporary(name: str) -> bool:
    """Whether a file of that name is one that `write_atomic` left behind when its process was killed."""
    return re.fullmatch(rf"\.[0-9a-f]{{{2 * _RANDOM_BYTES}}}\.tmp", name) is not None


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system can sync a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Some network file systems refuse to sync a folder; the file's own content is synced already.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
