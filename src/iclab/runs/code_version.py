"""A hash of the sources that can change the numbers of a cell: which code computed a result."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import iclab
from iclab.experiments.registry import module_of

# The rooms that a cell's numbers come from; see docs/architecture.md.
_ROOMS = ("estimators", "evaluation", "links", "models", "pretraining", "prompts", "scan", "theory")
_FILES = ("errors.py", "memory.py", "parallel.py", "scratch.py")
_ENDINGS = {".py", ".c", ".h"}


@cache
def code_version(kind: str) -> str | None:
    """Hexadecimal hash of the numeric rooms and of the kind's module with the modules beside it that it imports.

    ``None`` where the kind's module has no source file. Versions of other libraries are not in it: they stand in
    ``environment.json``.

    Args:
        kind: its name, as the registry reads it; the kind is loaded.
    """
    beside = sources_beside(kind)
    if not beside:
        return None
    package = Path(iclab.__file__).parent
    sources = {f"iclab/{path.relative_to(package).as_posix()}": path for path in _numeric(package)}
    sources |= {f"kind/{path.name}": path for path in beside}
    digest = hashlib.blake2b(digest_size=8)
    for name, path in sorted(sources.items()):
        try:
            content = path.read_bytes().replace(b"\r\n", b"\n")
        except OSError:
            return None
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def sources_beside(kind: str) -> set[Path]:
    """The file of a loaded kind's module with those of its folder that it imports; none where it has no file."""
    module = sys.modules[module_of(kind)]
    return set() if module.__file__ is None else _beside(Path(module.__file__))


def _numeric(package: Path) -> Iterator[Path]:
    for room in _ROOMS:
        yield from (path for path in (package / room).rglob("*") if path.suffix in _ENDINGS)
    yield from (package / name for name in _FILES)


def _beside(start: Path) -> set[Path]:
    """The file and those of its folder that it imports, at whatever depth."""
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path in found or path.suffix != ".py" or not path.is_file():
            continue
        found.add(path)
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        names = {name.rsplit(".", 1)[-1] for node in ast.walk(tree) for name in _imported(node)}
        waiting += [start.parent / f"{name}.py" for name in names]
    return found


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from ([node.module] if node.module else [])
        yield from (alias.name for alias in node.names)
