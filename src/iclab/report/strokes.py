"""How a curve looks: its label decides the colour and the marker, its role the line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.lines import Line2D

from iclab.experiments.reading import Figure, Role, Series
from iclab.report.palette import PAPER, SERIES_LIGHT
from iclab.report.text import plain

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h", "<", ">", "p")
# Who gets the most distinct colours first.
_ROLE_ORDER: tuple[Role, ...] = ("model", "ablation", "baseline", "theory", "ceiling", "quoted")
_DASHES: dict[str, Any] = {
    "model": "-",
    "ablation": (0, (5.5, 1.8)),
    "baseline": (0, (2.6, 1.4)),
    "theory": "-",
    "ceiling": (0, (1, 1.6)),
    "quoted": "none",
}
_WIDTHS: dict[str, float] = {
    "model": 1.8, "ablation": 1.6, "baseline": 1.5, "theory": 2.1, "ceiling": 1.9, "quoted": 0.0
}  # fmt: skip
_WITHOUT_MARKERS = {"theory", "ceiling"}


@dataclass(frozen=True)
class Stroke:
    """Colour, line and marker of a curve. ``marker`` is empty where the role has none."""

    colour: str
    role: Role
    dashes: Any
    width: float
    marker: str

    @property
    def open(self) -> bool:
        """Whether the marker is hollow: numbers quoted from a publication."""
        return self.role == "quoted"

    def marker_options(self) -> dict[str, Any]:
        """Matplotlib's options for the marker alone."""
        return {
            "marker": self.marker,
            "markersize": 6.2 if self.open else 5.6 if self.role == "model" else 4.6,
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


def assign_strokes(figures: Sequence[Figure]) -> dict[Key, Stroke]:
    """A stroke for each (label, role) of a report; one label has one colour and one marker throughout.

    Labels take their turn figure by figure, within a figure by role. Each gets the colour that is rarest among the
    labels it shares a figure with, then in the report, and labels of one colour in one figure get different markers.
    """
    groups = [_labels(figure) for figure in figures]
    company: dict[str, set[str]] = {}
    for group in groups:
        for label in group:
            company.setdefault(label, set()).update(group)
    colours: dict[str, int] = {}
    markers: dict[str, int] = {}
    for label, others in company.items():
        near = [other for other in others if other in colours]
        colours[label] = _rarest(len(SERIES_LIGHT), [colours[o] for o in near], list(colours.values()))
        twins = [markers[o] for o in near if colours[o] == colours[label]]
        markers[label] = _rarest(len(MARKERS), twins, [markers[o] for o in near])
    families = {key: family for figure in figures for key, family in _families(figure).items()}
    return {key: _stroke(colours[family], markers[family], key[1]) for key, family in families.items()}


def _labels(figure: Figure) -> list[str]:
    """The labels of a figure that need a colour, each once, those of models first."""
    families = sorted(_families(figure).items(), key=lambda item: _ROLE_ORDER.index(item[0][1]))
    return list(dict.fromkeys(family for _, family in families))


def _families(figure: Figure) -> dict[Key, str]:
    """The label that gives each entry its colour: its own, or the one it is like."""
    return {key_of(s): plain(s.like or s.label) for panel in figure.panels for s in panel.series}


def _rarest(count: int, near: Sequence[int], everywhere: Sequence[int]) -> int:
    return min(range(count), key=lambda number: (near.count(number), everywhere.count(number), number))


def _stroke(colour: int, marker: int, role: Role) -> Stroke:
    shown = "" if role in _WITHOUT_MARKERS else MARKERS[marker]
    return Stroke(SERIES_LIGHT[colour], role, _DASHES[role], _WIDTHS[role], shown)


def legend_keys(figure: Figure) -> list[Key]:
    """The entries of a figure's legend: each (label, role) of its panels once, in order of appearance."""
    return list(dict.fromkeys(key_of(series) for panel in figure.panels for series in panel.series))
