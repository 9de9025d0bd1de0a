"""A hash of the sources that can change what some modules compute: which code a result comes from."""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

_COMPILED = {".c", ".h", ".cu", ".cpp"}


@cache
def code_version(*modules: str) -> str | None:
    """Hexadecimal hash of some modules and of all that they import, at whatever depth.

    Followed are imports anywhere in a file, inside functions too, but for those under ``if TYPE_CHECKING:``; C sources
    beside a module count with it. Not followed are the standard library and installed packages other than iclab and
    those that the modules belong to: their versions stand in ``environment.json``. Comments, docstrings and layout
    change no result and do not count. A module that is named by a string, as the report of an experiment is, is not
    imported and does not count.

    Args:
        modules: names of modules that can be imported.

    Returns:
        16 digits; ``None`` where one of ``modules`` has no source file, or a file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=8)
    try:
        sources = sources_of(modules)
        if not set(modules) <= sources.keys():
            return None
        for name, content in sorted(sources.items()):
            digest.update(f"{name} {len(content)}\n".encode() + content)
    except (OSError, SyntaxError, ValueError):
        return None
    return digest.hexdigest()


def sources_of(modules: Sequence[str], without: Collection[str] = ()) -> dict[str, bytes]:
    """What each module that `code_version` follows says, and each C source by its path within the package.

    Args:
        modules: where to begin.
        without: packages that are not followed.

    Raises:
        OSError, SyntaxError, ValueError: of a file that cannot be read.
    """
    own = {"iclab", *(name.partition(".")[0] for name in modules)}
    found: dict[str, bytes] = {}
    waiting = [ancestor for name in modules for ancestor in _with_ancestors(name)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name.partition(".")[0] in without:
            continue
        seen.add(name)
        path = _source_of(name, own)
        if path is None:
            continue
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        if package:
            compiled = (file for file in path.parent.iterdir() if file.suffix in _COMPILED)
            found |= {f"{package}/{file.name}": file.read_bytes().replace(b"\r\n", b"\n") for file in compiled}
        imported, found[name] = _parsed(path.read_bytes(), package)
        waiting += [ancestor for module in imported for ancestor in _with_ancestors(module)]
    return found


@cache
def _parsed(content: bytes, package: str) -> tuple[tuple[str, ...], bytes]:
    """What a file of ``package`` imports, and its code: once for all versions that the file is part of."""
    tree = ast.parse(content)
    return tuple(_imported(tree, package)), _meaning(tree)


def _with_ancestors(name: str) -> list[str]:
    """``a``, ``a.b`` and ``a.b.c`` for ``a.b.c``: importing a module runs the packages that it lies in."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _source_of(name: str, own: set[str]) -> Path | None:
    """The Python file of a module to follow; ``None`` for others, and for names that are no module.

    Nothing is imported to find it: a module that has not been needed so far may have side effects.
    """
    spec = _spec(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    path = Path(spec.origin)
    return path if name.partition(".")[0] in own or not _is_installed(path) else None


def _spec(name: str) -> ModuleSpec | None:
    parent, _, _ = name.rpartition(".")
    if not parent:
        if name in sys.modules:
            return getattr(sys.modules[name], "__spec__", None)
        try:
            return find_spec(name)
        except (ImportError, ValueError):
            return None
    above = _spec(parent)
    if above is None or above.submodule_search_locations is None:
        return None
    return PathFinder.find_spec(name, list(above.submodule_search_locations))


def _is_installed(path: Path) -> bool:
    """Whether a file belongs to the standard library or to an installed package."""
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {folder for folder in sys.path if Path(folder).name in ("site-packages", "dist-packages")}
    return any(path.is_relative_to(folder) for folder in folders)


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Names that may be modules: of ``from a import b`` both ``a`` and ``a.b``."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.expr):  # no expression holds an import
            waiting += ast.iter_child_nodes(node)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"


def _meaning(tree: ast.Module) -> bytes:
    """The code of a file without what cannot change results: comments, docstrings and layout. Changes ``tree``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _documented(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree).encode("utf-8", "surrogatepass")


def _documented(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
