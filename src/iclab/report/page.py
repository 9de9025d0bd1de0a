"""Fills the page's template. Everything but drawn SVG and the style sheet is escaped by Jinja2."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from iclab.errors import InputError
from iclab.report.csv_data import data_link, figure_csv, table_csv
from iclab.report.describe import Cell, Rows, figure_rows, panel_in_words
from iclab.report.drawing import DrawnFigure, draw_legend_mark
from iclab.report.inline import inline_svg
from iclab.report.palette import DARK_VARIABLES, LIGHT_VARIABLES
from iclab.report.styles import Key, Style, legend_keys, of_figure
from iclab.report.terms import as_html
from iclab.report.text import cell_text, file_name, is_number, plain
from iclab.results.page import Figure, Reading, Table, Verdict

_BADGES: dict[Verdict, tuple[str, str]] = {
    "agrees": ("✓", "agrees"),
    "disagrees": ("✗", "disagrees"),
    "undecided": ("?", "undecided"),
    "information": ("i", "information"),
}


@dataclass(frozen=True)
class Download:
    """A file inside the page."""

    name: str
    link: str


def render_page(
    reading: Reading,
    drawn: Mapping[str, DrawnFigure],
    styles: dict[Key, Style],
    header: Mapping[str, str],
    sections: Mapping[str, Any],
) -> str:
    """The whole page.

    Args:
        reading: what the results say.
        drawn: the drawings of ``reading.figures``, in order, by file name.
        styles: from `assign_styles`.
        header: ``name``, ``title``, ``question``, ``source``.
        sections: ``glance``, ``intervals``, ``axes``, ``configuration``, ``provenance``, ``environment``, ``files``.
    """
    environment = Environment(
        loader=PackageLoader("iclab.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["math"] = as_html
    named = zip(reading.figures, drawn.items(), strict=True)
    return environment.get_template("report.html.j2").render(
        style=Markup(_style_sheet()),
        header=header,
        findings=[{"text": plain(f.text), "verdict": f.verdict, "badge": _BADGES[f.verdict]} for f in reading.findings],
        tally=_tally(reading),
        figures=[_figure(i, figure, name, d, styles) for i, (figure, (name, d)) in enumerate(named, 1)],
        tables=[_table(i, table) for i, table in enumerate(reading.tables, 1)],
        notes=[plain(note) for note in reading.notes],
        **sections,
    )


def as_json(value: Any) -> str:
    """Readable JSON, which is YAML as well; what JSON does not know is written as text."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    # A list of numbers on one line. Line breaks inside texts are escaped, so a raw one is always layout.
    return re.sub(r"\[\n\s+([^\[\]{}\"]*?)\n\s*\]", lambda m: f"[{' '.join(m.group(1).split())}]", text)


def _style_sheet() -> str:
    sheet = resources.files("iclab.report").joinpath("report.css").read_text(encoding="utf-8")
    light = "".join(f"--{name}:{colour};" for name, colour in LIGHT_VARIABLES.items())
    dark = "".join(f"--{name}:{colour};" for name, colour in DARK_VARIABLES.items())
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{sheet}"


def _tally(reading: Reading) -> str:
    """``3 findings agree with the claims, 1 is undecided`` in short."""
    verdicts = [finding.verdict for finding in reading.findings]
    parts = [f"{verdicts.count(v)} {_BADGES[v][1]}" for v in _BADGES if v != "information" and v in verdicts]
    return ", ".join(parts)


def _figure(number: int, figure: Figure, name: str, drawn: DrawnFigure, styles: dict[Key, Style]) -> dict[str, Any]:
    keys, styles = legend_keys(figure), of_figure(figure, styles)
    labels = [label for label, _ in keys]
    return {
        "number": number,
        "caption": " ".join(filter(None, [plain(figure.caption), drawn.cut_off])),
        "panels": [
            {"title": plain(panel.title), "svg": inline_svg(svg, f"f{number}p{i}", panel_in_words(panel))}
            for i, (panel, svg) in enumerate(zip(figure.panels, drawn.panels, strict=True), 1)
        ],
        "legend": [
            {
                "mark": inline_svg(draw_legend_mark(styles[key]), f"f{number}k{i}", ""),
                "label": key[0],
                "role": key[1] if labels.count(key[0]) > 1 else "",
            }
            for i, key in enumerate(keys, 1)
        ],
        "notes": drawn.notes,
        "download": Download(f"{name}.csv", data_link(figure_csv(figure))),
        "rows": figure_rows(figure),
    }


def _table(number: int, table: Table) -> dict[str, Any]:
    for i, row in enumerate(table.rows, 1):
        if len(row) != len(table.columns):
            found = f"row {i} of table {plain(table.name)!r} has {len(row)} cells"
            raise InputError(f"{found}; expected {len(table.columns)}, one a column")
    rows = tuple(tuple(Cell(cell_text(v), v is None or is_number(v)) for v in row) for row in table.rows)
    return {
        "number": number,
        "caption": plain(table.caption),
        "rows": Rows(tuple(plain(c) for c in table.columns), rows, len(rows)).filled(),
        "download": Download(f"{file_name(table.name)}.csv", data_link(table_csv(table))),
    }
