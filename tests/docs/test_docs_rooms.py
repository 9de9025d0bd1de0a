"""Rooms import what docs/architecture.md says, in the source and in a running process."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "iclab"
NUMERIC = ("links", "prompts", "ops", "theory", "models", "pretraining", "estimators", "evaluation", "settings")
NUMERIC_FILES = ("errors.py", "files.py", "lock.py", "memory.py", "parallel.py", "scratch.py")
ALLOWED = {"torch", "numpy", "scipy", "safetensors", "iclab", *sys.stdlib_module_names}
HEAVY = ("pydantic", "pandas", "matplotlib", "jinja2", "click", "rich", "yaml", "sklearn", "transformers")


def imported(file: Path) -> set[str]:
    """Top-level packages that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def loaded(code: str) -> set[str]:
    """Modules in a fresh interpreter after ``code``, without whatever the tests have loaded."""
    script = f"import sys\n{code}\nprint('\\n'.join(['-- modules', *sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.partition("-- modules\n")[2].split())


def test_numeric_rooms_name_only_numeric_packages():
    files = [file for room in NUMERIC for file in (PACKAGE / room).rglob("*.py")]
    files += [PACKAGE / name for name in NUMERIC_FILES]
    assert len(files) > 40
    for file in files:
        # Triton has kernels only in files of their own, which are imported where a GPU is asked for.
        kernels = {"triton"} if file.name.startswith("gpu") and file.parent.name == "scan" else set()
        assert imported(file) <= ALLOWED | kernels, file


def test_numeric_rooms_load_only_numeric_packages():
    code = "\n".join(f"import iclab.{name.removesuffix('.py')}" for name in (*NUMERIC, *NUMERIC_FILES))
    modules = loaded(code)
    assert {"torch", "numpy", "scipy", *(f"iclab.{room}" for room in NUMERIC)} <= modules
    assert not modules & set(HEAVY)
    assert not modules & {f"iclab.{room}" for room in ("experiments", "runs", "report", "cli")}


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["show", "oh2025/error"], ["show", "oh2025/exponents"]])
def test_reading_commands_load_no_torch(arguments: list[str]):
    code = f"from iclab.cli.main import main\nassert main({arguments!r}) == 0"
    modules = loaded(code)
    assert "iclab.cli.main" in modules
    assert not modules & {"torch", "scipy", "pandas", "matplotlib", "sklearn"}


def test_the_table_of_rooms_is_complete():
    """The table of the page, the layers that are checked, and the folders are the same."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Rooms")[2].partition("\n- ")[0]
    lines = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines() if row.startswith("| `")]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c["layers"] for c in settings["contracts"] if c["id"] == "rooms")
    assert [sorted(line) for line in lines] == [sorted(layer.split(" | ")) for layer in layers]
    folders = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert folders - {"__init__", "__main__"} == {room for line in lines for room in line}


@pytest.mark.parametrize("room", ["claims", "experiments", "results", "runs"])
def test_a_notebook_gets_every_public_name(room: str):
    package = importlib.import_module(f"iclab.{room}")
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)
    with pytest.raises(AttributeError, match="nothing"):
        _ = package.nothing
    assert f".. automodule:: iclab.{room}\n" in (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
