"""The reference of keys: made of the sections, whole, and the same on the page and the command line."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import pytest
from pydantic import Field

from iclab.cli.main import main
from iclab.config.keys import dotted_names
from iclab.config.reference import keys_of, sections_of
from iclab.experiments.definitions import catalogue_names
from iclab.experiments.kind import Config
from iclab.experiments.registry import KINDS, load_kind
from iclab.experiments.resolved import resolve

DOCS = Path(__file__).parents[2] / "docs"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_keys", DOCS / "make_keys.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_the_sections() -> None:
    """`python docs/make_keys.py` writes it again."""
    assert (DOCS / "keys.md").read_text(encoding="utf-8") == _script().page()


def test_every_key_of_every_section_has_a_meaning() -> None:
    sections = sections_of(load_kind(name).config for name in KINDS)
    assert [f"{s.title}.{key.name}" for s in sections for key in s.keys if not key.meaning] == []


@pytest.mark.parametrize("name", ["oh2025/error", "oh2025/context-length", "li2025/mitigation"])
def test_the_keys_of_an_experiment_are_those_that_can_be_set(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert name in catalogue_names()
    resolved = resolve(name, check=False)
    tree = resolved.cells[0].to_json()
    assert main(["show", name, "--keys", "--json"]) == 0
    keys = json.loads(capsys.readouterr().out)
    assert [key["name"] for key in keys] == dotted_names(resolved.kind.config, tree)
    assert all(key["meaning"] for key in keys)


class _One(Config):
    kind: Literal["one"] = "one"
    size: int = Field(3, ge=1, lt=10)


class _Two(Config):
    """Another.

    Attributes:
        flag: whether it
            is so.
    """

    kind: Literal["two"] = "two"
    flag: bool | None = None


class _Root(Config):
    needed: float = Field(gt=0.5, description="what is needed")
    part: Annotated[_One | _Two, Field(discriminator="kind")] = _One()
    parts: dict[str, _Two] = Field(default_factory=dict)
    pairs: list[tuple[int, str]] = Field([(1, "a")], min_length=1)


def test_what_is_said_of_a_key() -> None:
    keys = {key.name: key for key in keys_of(_Root, {"part": {"kind": "two"}, "parts": {"x": {}}})}
    assert (keys["needed"].allowed, keys["needed"].default) == ("a number > 0.5", "")
    assert keys["needed"].meaning == "what is needed"
    assert keys["part.kind"].allowed == '"one", "two"'
    assert (keys["part.flag"].meaning, keys["part.flag"].allowed) == ("whether it is so.", "true or false or null")
    assert keys["parts.x.flag"].default == "null"
    assert keys["pairs"].allowed == "a list (not empty) of [an integer, a string]"
    (size,) = (key for key in keys_of(_Root) if key.name == "part.size")
    assert (size.allowed, size.default) == ("an integer >= 1 and < 10", "3")
