"""docs/extending.md works: its code, run from top to bottom in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([\w-]+\.(?:py|yaml))\n")


def blocks() -> list[tuple[str, str]]:
    return FENCE.findall(PAGE.read_text(encoding="utf-8"))


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict = {}
    ran = {"saved": 0, "python": 0, "console": 0}
    try:
        for language, text in blocks():
            saved = FILE_NAME.match(text)
            if saved:
                Path(saved[1]).write_text(text, encoding="utf-8")
                ran["saved"] += 1
            elif language == "python":
                exec(compile(text, str(PAGE), "exec"), names)
                ran["python"] += 1
            else:
                assert language == "console"
                for line in text.splitlines():
                    command(line)
                    ran["console"] += 1
    finally:
        for name in [n for n, module in sys.modules.items() if is_below(module, tmp_path)]:
            del sys.modules[name]
    assert ran == {"saved": 10, "python": 7, "console": 7}
    assert Path("hard-tanh/report.html").is_file()
    assert Path("regression/figures/error.svg").is_file()


def is_below(module: object, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and Path(file).is_relative_to(folder)


def command(line: str) -> None:
    prompt, program, *arguments = shlex.split(line)
    assert (prompt, program) == ("$", "iclab")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "iclab", *arguments], capture_output=True, text=True, env=environment, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
