"""Writes keys.md, the reference of all keys, from the sections of configuration: `python docs/make_keys.py`."""

from __future__ import annotations

from pathlib import Path

from iclab.config.reference import Section, sections_of
from iclab.experiments.registry import KINDS, load_kind

PAGE = Path(__file__).with_name("keys.md")
HEAD = """# Keys

Every key that an experiment can set, from the sections of configuration themselves. `iclab show NAME --keys` lists
those of one experiment with their whole names. A section that comes in kinds is chosen by its key `kind`. A default of
`null` leaves the choice to the model or the estimator. [Running](running.md) says how keys are set and swept.

"""


def page() -> str:
    """The page as Markdown."""
    roots = {name: load_kind(name).config for name in KINDS}
    sections = sections_of(roots.values())
    titles = {config.__name__: name for name, config in roots.items()}
    parts = [HEAD, "## Experiments\n\n"]
    parts += [_section(f"`{titles[s.title]}`", s) for s in sections if s.title in titles]
    parts.append("## Sections\n\n")
    parts += [
        _section(f"{s.title}, `kind: {s.kind}`" if s.kind else s.title, s) for s in sections if s.title not in titles
    ]
    return "".join(parts).rstrip() + "\n"


def _section(title: str, section: Section) -> str:
    rows = [
        f"| `{key.name}` | {_cell(key.meaning)} | {_cell(key.allowed)} | {_code(key.default)} |\n"
        for key in section.keys
    ]
    table = "| key | meaning | allowed | default |\n|---|---|---|---|\n" + "".join(rows) if rows else ""
    return f"### {title}\n\n{section.summary}\n\n{table}\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else "must be given"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
