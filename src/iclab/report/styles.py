"""How a curve looks: its label decides the colour and the marker, its role the line.

Points with an exact curve of their own are markers without a line, so that the line is always the exact one. Ceilings,
which are no learners, take the ink's colour and leave the palette to those that are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.lines import Line2D

from iclab.experiments.roles import Role
from iclab.report.palette import INK, PAPER, SERIES_LIGHT
from iclab.report.text import plain
from iclab.results.page import Figure, Series

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h", "<", ">", "p")
# Who gets the most distinct colours first.
_ROLE_ORDER: tuple[Role, ...] = ("model", "ablation", "baseline", "theory", "ceiling", "quoted")
_DASHES: dict[str, Any] = {
    "model": "-",
    "ablation": (0, (5.5, 1.8)),
    "baseline": (0, (2.6, 1.4)),
    "quoted": "none",
}
# Roles without markers: where several labels of a figure share a colour, each takes the next of these.
_PATTERNS: dict[str, tuple[Any, ...]] = {
    "theory": ("-", (0, (8, 1.4, 1.4, 1.4)), (0, (8, 1.4, 1.4, 1.4, 1.4, 1.4))),
    "ceiling": ((0, (1, 1.6)), (0, (4, 1.4, 1, 1.4)), (0, (4, 1.4, 1, 1.4, 1, 1.4))),
}
_WIDTHS: dict[str, float] = {
    "model": 1.8, "ablation": 1.6, "baseline": 1.5, "theory": 2.1, "ceiling": 1.9, "quoted": 0.0
}  # fmt: skip
# Curves beneath more than this many others are no wider still.
_MOST_LAYERS = 3
# In the place of the number of a series colour.
_INK = -1


@dataclass(frozen=True)
class Style:
    """Colour, line and marker of a curve.

    ``marker`` is empty where the role has none; ``growth`` is added to the marker's size.
    """

    colour: str
    role: Role
    dashes: Any
    width: float
    marker: str
    growth: float = 0.0

    @property
    def open(self) -> bool:
        """Whether the marker is hollow: numbers quoted from a publication."""
        return self.role == "quoted"

    @property
    def joined(self) -> bool:
        """Whether a line joins the points."""
        return self.dashes != "none"

    def beneath(self, others: int) -> Style:
        """The same style, broad enough to show on both sides of ``others`` that lie on it."""
        layers = min(others, _MOST_LAYERS)
        return replace(self, width=self.width + 1.6 * layers if self.joined else 0.0, growth=2.4 * layers)

    def marker_options(self) -> dict[str, Any]:
        """Matplotlib's options for the marker alone."""
        return {
            "marker": self.marker,
            "markersize": self.growth + (6.2 if self.open else 5.6 if self.role == "model" else 4.6),
            "markerfacecolor": PAPER if self.open else self.colour,
            "markeredgecolor": self.colour if self.open else PAPER,
            "markeredgewidth": 1.4 if self.open else 0.6 if self.role == "model" else 0.0,
        }

    def line_options(self) -> dict[str, Any]:
        """Matplotlib's options for the line and its markers."""
        marker = self.marker_options() if self.marker else {}
        return {"color": self.colour, "linestyle": self.dashes, "linewidth": self.width, **marker}

    def handle(self) -> Line2D:
        """The entry in a legend."""
        return Line2D([], [], **self.line_options())


Key = tuple[str, Role]


def key_of(series: Series) -> Key:
    """What a legend tells apart: the label and the role."""
    return plain(series.label), series.role


def assign_styles(figures: Sequence[Figure]) -> dict[Key, Style]:
    """A style for each (label, role) of a report; one label has one colour and one marker throughout.

    Labels take their turn figure by figure, within a figure by role. Each gets the colour that is rarest among the
    labels it shares a figure with, then in the report, and labels of one colour in one figure get different markers
    and, where they have none, different patterns of dashes.
    """
    everything = [s for figure in figures for panel in figure.panels for s in panel.series]
    coloured = {_family(s) for s in everything if s.role != "ceiling"}
    colours: dict[str, int] = {}
    markers: dict[str, int] = {}
    turns: dict[str, int] = {}
    for label, others in _company(figures).items():
        near = [other for other in others if other in colours]
        if label in coloured:
            taken = [c for c in colours.values() if c != _INK]
            colours[label] = _rarest(len(SERIES_LIGHT), [colours[o] for o in near], taken)
        else:
            colours[label] = _INK
        twins = [markers[o] for o in near if colours[o] == colours[label]]
        markers[label] = _rarest(len(MARKERS), twins, [markers[o] for o in near])
        turns[label] = len(twins)
    families = {key_of(s): _family(s) for s in everything}
    return {key: _style(colours[family], markers[family], turns[family], key[1]) for key, family in families.items()}


def of_figure(figure: Figure, styles: dict[Key, Style]) -> dict[Key, Style]:
    """The styles of one figure: points that an exact curve of this figure describes are not joined."""
    keys = legend_keys(figure)
    shown = (series for panel in figure.panels for series in panel.series)
    described = {plain(series.like) for series in shown if series.role == "theory" and series.like}
    return {
        key: replace(styles[key], dashes="none") if key[0] in described and styles[key].marker else styles[key]
        for key in keys
    }


def _family(series: Series) -> str:
    """The label that gives an entry its colour: its own, or the one it is like."""
    return plain(series.like or series.label)


def _company(figures: Sequence[Figure]) -> dict[str, set[str]]:
    """The labels that need a look, in the order of their turns, each with those it shares a figure with."""
    company: dict[str, set[str]] = {}
    for figure in figures:
        shown = sorted((s for panel in figure.panels for s in panel.series), key=lambda s: _ROLE_ORDER.index(s.role))
        group = [_family(s) for s in shown]
        for label in group:
            company.setdefault(label, set()).update(group)
    return company


def _rarest(count: int, near: Sequence[int], everywhere: Sequence[int]) -> int:
    return min(range(count), key=lambda number: (near.count(number), everywhere.count(number), number))


def _style(colour: int, marker: int, turn: int, role: Role) -> Style:
    shade = INK if colour == _INK else SERIES_LIGHT[colour]
    if role in _PATTERNS:
        patterns = _PATTERNS[role]
        return Style(shade, role, patterns[turn % len(patterns)], _WIDTHS[role], "")
    return Style(shade, role, _DASHES[role], _WIDTHS[role], MARKERS[marker])


def legend_keys(figure: Figure) -> list[Key]:
    """The entries of a figure's legend: each (label, role) of its panels once, in order of appearance."""
    return list(dict.fromkeys(key_of(series) for panel in figure.panels for series in panel.series))
