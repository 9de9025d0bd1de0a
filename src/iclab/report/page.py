"""Fills the page's template. Everything but drawn SVG and the style sheet is escaped by Jinja2."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from iclab.claims.claim import ClaimResult, Verdict
from iclab.claims.rules import GRID, groups, overall, tally
from iclab.claims.wording import claims_text, point_text
from iclab.errors import InputError
from iclab.report.csv_data import data_link, figure_csv, table_csv
from iclab.report.describe import Cell, Rows, figure_rows, panel_in_words
from iclab.report.drawing import DrawnFigure, draw_legend_mark
from iclab.report.inline import inline_svg
from iclab.report.palette import DARK_VARIABLES, LIGHT_VARIABLES
from iclab.report.styles import Key, Style, legend_keys, of_figure
from iclab.report.terms import as_html
from iclab.report.text import cell_text, file_name, is_number, plain
from iclab.results.page import Figure, Report, Table

_BADGES: dict[Verdict, str] = {"supported": "✓", "contradicted": "✗", "undecided": "?", "not applicable": "–"}
_MOST_OPEN = 9  # grid points of a claim that are listed without a click


@dataclass(frozen=True)
class Download:
    """A file inside the page."""

    name: str
    link: str


def render_page(
    report: Report,
    drawn: Mapping[str, DrawnFigure],
    styles: dict[Key, Style],
    header: Mapping[str, str],
    sections: Mapping[str, Any],
) -> str:
    """The whole page.

    Args:
        report: what the results say.
        drawn: the drawings of ``report.figures``, in order, by file name.
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
    named = zip(report.figures, drawn.items(), strict=True)
    return environment.get_template("report.html.j2").render(
        style=Markup(_style_sheet()),
        header=header,
        warning=plain(report.warning),
        claims=[_claim(group) for group in groups(report.claims)],
        notes=[plain(note) for note in report.notes],
        tally=", ".join(f"{count} {verdict}" for verdict, count in tally(report.claims).items()),
        rules=[plain(text) for text in _rules(report.claims)],
        figures=[_figure(i, figure, name, d, styles) for i, (figure, (name, d)) in enumerate(named, 1)],
        tables=[_table(i, table) for i, table in enumerate(report.tables, 1)],
        methods=[plain(note) for note in report.methods],
        **sections,
    )


def as_json(value: Any) -> str:
    """Readable JSON, which is YAML as well; what JSON does not know is written as a string."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    # A list of numbers on one line. Line breaks inside texts are escaped, so a raw one is always layout.
    return re.sub(r"\[\n\s+([^\[\]{}\"]*?)\n\s*\]", lambda m: f"[{' '.join(m.group(1).split())}]", text)


def _style_sheet() -> str:
    sheet = resources.files("iclab.report").joinpath("report.css").read_text(encoding="utf-8")
    light = "".join(f"--{name}:{colour};" for name, colour in LIGHT_VARIABLES.items())
    dark = "".join(f"--{name}:{colour};" for name, colour in DARK_VARIABLES.items())
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{sheet}"


def _claim(group: list[ClaimResult]) -> dict[str, Any]:
    """A claim with its verdict over all grid points, and below it those at each where there are several."""
    several = len(group) > 1
    claim = group[0].claim
    return {
        "id": plain(claim.id),
        "source": plain(claim.source),
        "text": plain(claims_text(group)),
        **_verdict(overall(group)),
        "points": [{"text": plain(point_text(r)), **_verdict(r.verdict)} for r in group] if several else [],
        "open": len(group) <= _MOST_OPEN,
    }


def _verdict(verdict: Verdict) -> dict[str, str]:
    return {"verdict": verdict, "style": verdict.replace(" ", "-"), "badge": _BADGES[verdict]}


def _rules(results: Sequence[ClaimResult]) -> list[str]:
    """The rules that the verdicts follow, each once."""
    rules = [rule for result in results for rule in result.rules]
    if any(len(group) > 1 for group in groups(results)):
        rules.append(GRID)
    return list(dict.fromkeys(rule.text for rule in rules))


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
