"""The experiments by name: YAML files of the catalogue beside this file, and a user's own by path.

A file may extend another by ``base: NAME``: what it says itself is changed in the base as overrides on the command line
would change it, so mappings merge, ``key:=`` replaces and ``null`` deletes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from iclab.config.names import check_name
from iclab.config.ranges import expand_lists
from iclab.config.validation import validate
from iclab.config.yaml_values import load_yaml
from iclab.errors import InputError, did_you_mean
from iclab.experiments.kind import Config

CATALOGUE = Path(__file__).parent / "catalogue"
_ENDINGS = (".yaml", ".yml")
_HELPER = "x-"


class Scale(Config):
    """A size of an experiment: what it sets, and the axes of its grid (lists, or ranges such as ``0..4``).

    In a file with a base, ``null`` in place of an axis takes that of the base out of the grid.
    """

    set: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, list[Any] | str | None] = Field(default_factory=dict)


class Description(Config):
    """What an experiment's YAML file holds."""

    title: str
    question: str
    source: str = ""
    kind: str
    config: dict[str, Any] = Field(default_factory=dict)
    scales: dict[str, Scale] = Field(default_factory=lambda: {"laptop": Scale()}, min_length=1)


@dataclass(frozen=True)
class Definition:
    """An experiment.

    Attributes:
        name: of the catalogue, or the stem of a user's file.
        title, question, source, kind: as the file, or the nearest base that says them, has it.
        config: what the file sets, for all scales.
        scales: those of the file itself.
        folder: that of a user's file; modules that it names are looked for there, too.
        base: what the file extends.
    """

    name: str
    title: str
    question: str
    source: str
    kind: str
    config: dict[str, Any]
    scales: dict[str, Scale]
    folder: Path | None = None
    base: Definition | None = None

    @property
    def chain(self) -> tuple[Definition, ...]:
        """The base that extends nothing first, this one last."""
        return (*(self.base.chain if self.base else ()), self)

    @property
    def scale_names(self) -> list[str]:
        """The scales of all bases and of the file, in the order in which they first appear."""
        return list(dict.fromkeys(scale for definition in self.chain for scale in definition.scales))


def catalogue_names() -> list[str]:
    """Return ``<paper>/<experiment>`` of every file of the catalogue, sorted."""
    return sorted(path.relative_to(CATALOGUE).with_suffix("").as_posix() for path in CATALOGUE.glob("*/*.yaml"))


def load_definition(name: str) -> Definition:
    """Load the experiment called ``name``, or described by the YAML file at the path ``name``.

    The last part of a name is enough where it is unambiguous.

    Raises:
        InputError: for a name or file that does not exist, and for a file that is no description of an experiment.
    """
    return _load(name, None, ())


def _load(name: str, beside: Path | None, chain: tuple[Path, ...]) -> Definition:
    """``beside`` is the folder from which a relative path leads; ``chain`` are the files that extend this one."""
    names = catalogue_names()
    if name in names:
        return _read(CATALOGUE / f"{name}.yaml", name, None, chain)
    if name.endswith(_ENDINGS):
        path = (beside or Path()) / name
        if not path.is_file():
            raise InputError(f"no file {str(path)!r}; expected a YAML file or a name that `iclab list` shows")
        return _read(path, path.stem, path.resolve().parent, chain)
    matches = [known for known in names if known.rsplit("/", 1)[-1] == name]
    if len(matches) == 1:
        return _load(matches[0], None, chain)
    if matches:
        raise InputError(f"{name!r} may be {' or '.join(matches)}; give the whole name")
    raise InputError(f"no experiment {name!r}{did_you_mean(name, names)}; `iclab list` shows all of them")


def _read(path: Path, name: str, folder: Path | None, chain: tuple[Path, ...]) -> Definition:
    if path.resolve() in chain:
        raise InputError(f"{path} extends itself (base: {' -> '.join(p.name for p in chain)}); remove one of the bases")
    content = {key: value for key, value in _read_mapping(path).items() if not key.startswith(_HELPER)}
    base = _read_base(path, content.pop("base", None), chain)
    if base is not None:
        inherited = {key: getattr(base, key) for key in ("title", "question", "source", "kind")}
        # A file without scales has those of its base; `Description` would give it one of its own.
        content = {**inherited, "scales": {next(iter(base.scale_names)): {}}, **content}
    description = validate(Description, content, f"{path}: ")
    check_name("the name of the YAML file", path.stem)
    for scale in description.scales:
        check_name(f"{path}: a scale", scale)
    fields = dict(description) | {"config": _expanded(path, description.config)}
    # A kind beside the base is looked for where the base stands.
    if base is not None and base.folder is not None and description.kind == base.kind:
        folder = base.folder
    return Definition(name, **fields, folder=folder, base=base)


def _read_mapping(path: Path) -> dict[str, Any]:
    try:
        content = load_yaml(path.read_bytes().decode())
    except ValueError as error:
        raise InputError(f"{path} cannot be read as YAML: {error}") from None
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no mapping; expected the keys title, question, kind, config and scales")
    return content


def _read_base(path: Path, base: object, chain: tuple[Path, ...]) -> Definition | None:
    if base is None:
        return None
    if not isinstance(base, str):
        raise InputError(f"{path}: base is {base!r}; expected the name of an experiment or of a YAML file")
    return _load(base, path.resolve().parent, (*chain, path.resolve()))


def _expanded(path: Path, value: Any) -> Any:
    try:
        return expand_lists(value)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
