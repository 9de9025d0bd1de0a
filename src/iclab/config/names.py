"""Names that become a part of a path or of a line: of files, scales and entries of mappings."""

from __future__ import annotations

from iclab.errors import InputError

MOST_BYTES = 100
"""So that ``<name>-<scale>-<run id>`` fits the 255 bytes that file systems allow a name."""


def check_name(what: str, name: str, forbidden: str = "/\\") -> None:
    """Refuse a name that is empty, ``.`` or ``..``, too long, or holds a ``forbidden`` or an unprintable character.

    Raises:
        InputError: naming ``what`` it is the name of.
    """
    if name in ("", ".", ".."):
        raise InputError(f"{what} is {name!r}, which names nothing; expected letters or digits")
    strange = next((c for c in name if c in forbidden or not c.isprintable()), None)
    if strange is not None:
        raise InputError(f"{what} is {name[:60]!a}, with {strange!a}; expected a name without that character")
    if len(name.encode()) > MOST_BYTES:
        raise InputError(f"{what} is {name[:40]!r}... of {len(name.encode())} bytes; expected at most {MOST_BYTES}")


def check_keys(tree: object, path: str = "") -> None:
    """Refuse entries of mappings that no table or line can show; ``tree`` is the JSON dump of a configuration.

    Raises:
        InputError: naming the mapping.
    """
    if isinstance(tree, dict):
        for key, value in tree.items():
            check_name(f"an entry of {path or 'the configuration'}", str(key), forbidden="")
            check_keys(value, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, list):
        for value in tree:
            check_keys(value, path)
