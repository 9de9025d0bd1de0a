"""The hash of the code behind a result: what it follows, what it leaves out, and what is reused because of it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import iclab
from iclab.code_version import code_version, sources_of
from iclab.experiments.registry import KINDS, load_kind
from iclab.experiments.resolved import resolve
from iclab.runs.run import run_experiment

PACKAGE = {
    "__init__.py": "",
    "kind.py": """
from iclab.experiments.kind import ExperimentKind
from .config import Dice
from .study import run_cell
KIND = ExperimentKind(Dice, run_cell, lambda config: 0.0, "PACKAGE.report:summarise")
""",
    "config.py": """
from iclab.experiments.kind import Config
class Dice(Config):
    seed: int = 0
""",
    "study.py": """
import numpy as np
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from . import unused
def run_cell(config):
    from iclab.evaluation.measurement import Measurement
    from .deeper.helper import value
    return [Measurement("dice", "mean", np.array([[value(config.seed)]]))]
""",
    "unused.py": "x = 1",
    "deeper/__init__.py": "",
    "deeper/helper.py": "def value(seed):\n    return 3.5 + seed\n",
    "deeper/kernel.c": "int f(void) { return 1; }\n",
    "report.py": """
from iclab.results.page import Report
CAPTION = "first words"
def summarise(results):
    return Report(notes=[CAPTION])
""",
}


@pytest.fixture
def package(tmp_path, monkeypatch) -> Iterator[tuple[Path, Callable[[], str | None]]]:
    """A user's kind in a package of several files, and the version of its code, computed anew."""
    name = f"dice_{tmp_path.name.replace('-', '_')}"
    for file, content in PACKAGE.items():
        path = tmp_path / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("PACKAGE", name))
    (tmp_path / "dice.yaml").write_text(f"{{title: T, question: Q, kind: '{name}.kind:KIND'}}")
    monkeypatch.syspath_prepend(str(tmp_path))
    code_version.cache_clear()

    def version() -> str | None:
        code_version.cache_clear()
        kind = load_kind(f"{name}.kind:KIND")
        return kind.code(kind.config())

    yield tmp_path / name, version
    code_version.cache_clear()
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


def add(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


@pytest.mark.parametrize("file", ["study.py", "config.py", "deeper/helper.py", "deeper/__init__.py", "deeper/kernel.c"])
def test_a_changed_line_that_run_cell_imports_is_another_version(package, file):
    folder, version = package
    before = version()
    add(folder / file, "y = 2\n")
    assert before is not None
    assert version() not in (before, None)


@pytest.mark.parametrize("file", ["report.py", "unused.py", "kind.py"])
def test_what_summarises_or_only_annotates_is_no_part_of_the_version(package, file):
    folder, version = package
    before = version()
    add(folder / file, "y = 2\n")
    assert version() == before


def test_comments_docstrings_and_line_endings_are_no_part_of_the_version(package):
    folder, version = package
    before = version()
    study = folder / "study.py"
    study.write_text('"""What a die shows."""\n' + study.read_text() + "# a comment\n")
    study.write_bytes(study.read_bytes().replace(b"\n", b"\r\n"))
    kernel = folder / "deeper" / "kernel.c"
    kernel.write_bytes(kernel.read_bytes().replace(b"\n", b"\r\n"))
    assert version() == before


def test_sources_that_cannot_be_read_give_no_version(package):
    folder, version = package
    (folder / "deeper" / "helper.py").write_text("def value(seed: return")
    assert version() is None
    assert code_version("no_such_module_anywhere") is None


def test_a_changed_caption_reuses_all_cells_and_a_changed_number_none(package, tmp_path, capsys):
    folder, version = package
    resolved = resolve(str(tmp_path / "dice.yaml"), ["seed=0..2"])

    def run(name: str, reuse: str) -> str:
        run_experiment(resolved, tmp_path / name, engine="inline", reuse=[tmp_path / reuse], stream=io.StringIO())
        stream = io.StringIO()
        run_experiment(resolved, tmp_path / f"{name} again", engine="inline", reuse=[tmp_path / reuse], stream=stream)
        return stream.getvalue()

    run_experiment(resolved, tmp_path / "first", engine="inline", quiet=True)
    assert "first words" in (tmp_path / "first" / "report.html").read_text()
    report = folder / "report.py"
    report.write_text(report.read_text().replace("first words", "other words"))
    del sys.modules[f"{folder.name}.report"]
    version()
    assert "3 of 3 cells taken from other runs" in run("second", "first")
    assert "other words" in (tmp_path / "second" / "report.html").read_text()
    add(folder / "deeper" / "helper.py", "y = 2\n")
    version()
    assert "0 of 3 cells taken from other runs" in run("third", "first")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_version_of_a_study_follows_the_core_and_leaves_its_report_out(kind):
    """The C core decides bits of all that the one-layer model or the scan computes; a report decides none."""
    loaded = load_kind(kind)
    sources = sources_of(loaded.modules)
    assert loaded.config.__module__ in sources
    assert isinstance(loaded.summary, str)
    assert loaded.summary.partition(":")[0] not in sources
    assert not [name for name in sources if name.startswith(("iclab.runs", "iclab.report", "iclab.cli"))]
    core = {path.name for path in (Path(iclab.__file__).parent / "ops" / "core").glob("*.[ch]")}
    assert core
    if "iclab.ops" in sources:
        assert {f"iclab.ops.core/{name}" for name in core} <= sources.keys()
