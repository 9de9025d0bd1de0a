"""What README and docs promise: their examples run, their links lead somewhere, their Python parses."""

import ast
import importlib
import math
import re
import tomllib
from pathlib import Path

import pytest

import iclab

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def fences(page: Path, language: str) -> list[str]:
    return [text for found, text in FENCE.findall(page.read_text(encoding="utf-8")) if found == language]


def anchors(page: Path) -> set[str]:
    """Headings as GitHub turns them into anchors."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path):
    targets = LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    for target in (t for t in targets if not re.match(r"https?://|mailto:", t)):
        place, _, anchor = target.partition("#")
        file = page.parent / place if place else page
        assert file.exists(), f"{name_of(page)} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_on_pages_parses(page: Path):
    for text in fences(page, "python"):
        ast.parse(text)


def test_the_readme_trains_a_model_that_beats_kernel_ridge(capsys: pytest.CaptureFixture[str]):
    names: dict = {}
    exec(fences(ROOT / "README.md", "python")[0], names)
    assert len(capsys.readouterr().out.splitlines()) == 2
    errors = names["curves"]["squared_error"]
    assert errors["Mamba"].values[-1] < 0.6
    gap = errors["Mamba"] - errors["kernel ridge"]
    assert gap.intervals()[-1].high < 0


def test_the_theory_example_of_the_readme(capsys: pytest.CaptureFixture[str]):
    names: dict = {}
    exec(fences(ROOT / "README.md", "python")[1], names)
    assert capsys.readouterr().out.startswith("3 1\n")
    curve = names["gate"].alignment_curve([256, 4096, 10**9], dim=4)
    # Without decay the state points along beta in the end; with it the alignment stops growing.
    assert curve[2] - curve[1] < 1e-3
    free = names["GateMoments"]("he3", noise=0.1, rho=0.5, b=-9.0, num_examples=10**9, decay=False)
    assert math.isclose(free.alignment(4), 1.0, abs_tol=1e-5)


def test_commands_of_the_readme_exist():
    from iclab.cli.main import iclab as command_line
    from iclab.experiments.definitions import catalogue_names

    lines = [line for text in fences(ROOT / "README.md", "console") for line in text.splitlines()]
    words = [line.removeprefix("$ iclab ").split() for line in lines]
    assert {w[0] for w in words} == set(command_line.commands)
    assert {w[1] for w in words if w[0] in ("show", "run")} <= set(catalogue_names())


def test_targets_that_pages_name_are_in_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        named = re.findall(r"(?:^    |`)make ([a-z -]+?)(?: +#|`|$)", text, re.MULTILINE)
        assert {target for words in named for target in words.split()} <= targets, name_of(page)


def test_the_api_page_covers_every_numeric_room():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    documented = re.findall(r"automodule:: (\S+)", text)
    rooms = {"links", "prompts", "theory", "models", "pretraining", "estimators", "evaluation"}
    assert {f"iclab.{room}" for room in rooms} <= set(documented)
    for module in documented:
        assert importlib.import_module(module).__doc__


def test_public_names_are_documented():
    for room in ("links", "prompts", "theory", "models", "pretraining", "estimators", "evaluation"):
        module = importlib.import_module(f"iclab.{room}")
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) or callable(value):
                assert value.__doc__, f"iclab.{room}.{name} has no docstring"


def test_one_version_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == iclab.__version__
    assert f"version: {iclab.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {iclab.__version__} " in (ROOT / "CHANGELOG.md").read_text()
