"""The experiments by name: YAML files of the catalogue beside this file, and a user's own by path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from iclab.config.names import check_name
from iclab.config.nearest import did_you_mean
from iclab.config.validation import validate
from iclab.config.yaml_values import load_yaml
from iclab.errors import InputError
from iclab.experiments.kind import Config

CATALOGUE = Path(__file__).parent / "catalogue"
_ENDINGS = (".yaml", ".yml")


class Scale(Config):
    """A size of an experiment: what it sets, and the axes of its grid (lists, or texts such as ``0..4``)."""

    set: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, list[Any] | str] = Field(default_factory=dict)


class Description(Config):
    """What an experiment's YAML file holds."""

    title: str
    question: str
    source: str = ""
    kind: str
    config: dict[str, Any] = Field(default_factory=dict)
    scales: dict[str, Scale] = Field(default_factory=lambda: {"laptop": Scale()}, min_length=1)


class Definition(Description):
    """An experiment: its description, its name and, for a user's own, the folder of its file."""

    name: str
    folder: Path | None = None


def catalogue_names() -> list[str]:
    """``<paper>/<experiment>`` of every file of the catalogue, sorted."""
    return sorted(path.relative_to(CATALOGUE).with_suffix("").as_posix() for path in CATALOGUE.glob("*/*.yaml"))


def load_definition(name: str) -> Definition:
    """The experiment called ``name``, or described by the YAML file at the path ``name``.

    The last part of a name is enough where it is unambiguous.

    Raises:
        InputError: for a name or file that does not exist, and for a file that is no description of an experiment.
    """
    names = catalogue_names()
    if name in names:
        return _read(CATALOGUE / f"{name}.yaml", name, None)
    if name.endswith(_ENDINGS):
        path = Path(name)
        if not path.is_file():
            raise InputError(f"no file {name!r}; expected a YAML file or a name that `iclab list` shows")
        return _read(path, path.stem, path.resolve().parent)
    matches = [known for known in names if known.rsplit("/", 1)[-1] == name]
    if len(matches) == 1:
        return load_definition(matches[0])
    if matches:
        raise InputError(f"{name!r} may be {' or '.join(matches)}; give the whole name")
    raise InputError(f"no experiment {name!r}{did_you_mean(name, names)}; `iclab list` shows all of them")


def _read(path: Path, name: str, folder: Path | None) -> Definition:
    try:
        content = load_yaml(path.read_bytes().decode())
    except ValueError as error:
        raise InputError(f"{path} cannot be read as YAML: {error}") from None
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no mapping; expected the keys title, question, kind, config and scales")
    description = validate(Description, content, f"{path}: ")
    check_name("the name of the YAML file", path.stem)
    for scale in description.scales:
        check_name(f"{path}: a scale", scale)
    return Definition.model_construct(**dict(description), name=name, folder=folder)
