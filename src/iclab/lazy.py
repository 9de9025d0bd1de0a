"""Public names of a package that are imported when they are first used, so that importing the package is instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy(package: str, modules: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: its ``__name__``.
        modules: the names that each of its modules provides, by the module's name within the package.
    """
    origins = {name: f"{package}.{module}" for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(origins[name]), name)

    return get, lambda: sorted(origins)
