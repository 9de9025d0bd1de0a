"""docs/outliers.md works: its code, run from top to bottom in an empty folder; its table names every argument."""

import inspect
import re
from pathlib import Path

import pytest

from iclab.prompts import OutlierClassification, VectorClassification

PAGE = Path(__file__).parents[2] / "docs" / "outliers.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert (tmp_path / "digits.npz").is_file()
    assert len(blocks) >= 4


def test_the_page_names_every_argument():
    named = set(re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8")))
    for distribution in (OutlierClassification, VectorClassification):
        arguments = set(inspect.signature(distribution).parameters) - {"vectors", "classes", "target_label", "seed"}
        assert arguments <= named
