"""Figures as SVG and PNG bytes: the whole figure for ``figures/``, and each panel alone for the page.

On the page a panel is an image of its own, so that panels stand in one column on a phone and side by side on a desk.
"""

from __future__ import annotations

import io
import logging
import math
import re
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas

from iclab.report.palette import AXIS, INK, PAPER
from iclab.report.panel import draw_panel
from iclab.report.prepare import PreparedPanel, cut_off, prepare
from iclab.report.styles import Key, Style, legend_keys, of_figure
from iclab.report.terms import as_mathtext
from iclab.report.text import plain, wrapped
from iclab.results.page import Figure

_PANEL_SIZE = (4.4, 3.15)
_FILE_PANEL_SIZES = {1: (5.6, 3.7), 2: (4.5, 3.3), 3: (4.2, 3.25)}
_RESOLUTION = 200
_STYLE: dict[str, Any] = {
    "svg.fonttype": "path",
    # What is drawn comes from `as_mathtext`, which leaves no dollar sign of a label itself to the parser.
    "text.parse_math": True,
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.edgecolor": AXIS,
    "axes.unicode_minus": True,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
}


@dataclass(frozen=True)
class DrawnFigure:
    """A figure drawn.

    Attributes:
        svg, png: the files' bytes.
        panels: each panel alone, as SVG.
        notes: what could not be drawn, and how to read what is.
        cut_off: which curves leave the axes, for the caption; empty if none does.
    """

    svg: bytes
    png: bytes
    panels: tuple[bytes, ...]
    notes: tuple[str, ...]
    cut_off: str = ""


def draw_figure(figure: Figure, styles: dict[Key, Style]) -> DrawnFigure:
    """Draw ``figure``; equal input gives equal bytes.

    Raises:
        InputError: a panel's data or limits make no sense.
    """
    with _style(plain(figure.name)):
        panels, styles = prepare(figure), of_figure(figure, styles)
        canvas = _compose(figure, panels, styles)
        svg, png = _svg(canvas, plain(figure.name)), _png(canvas)
        drawn = [_draw_alone(panel, styles) for panel in panels]
    notes = dict.fromkeys(note for _, panel_notes in drawn for note in panel_notes)
    return DrawnFigure(svg, png, tuple(data for data, _ in drawn), tuple(notes), cut_off(panels))


def draw_legend_mark(style: Style) -> bytes:
    """The line and marker of a legend's entry, as a small SVG."""
    with _style("legend"):
        canvas = Canvas(figsize=(0.52, 0.17), facecolor="none")
        axes = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.plot([0.04, 0.5, 0.96], [0.5] * 3, **style.line_options(), markevery=[1] if style.marker else None)
        return _svg(canvas, "legend")


def column_count(panels: int) -> int:
    """Columns of the grid in a file: at most three, and no row with a single panel where that can be avoided."""
    return {0: 1, 1: 1, 2: 2, 4: 2}.get(panels, 3)


@contextmanager
def _style(salt: str) -> Generator[None]:
    """Matplotlib's own defaults and ours, whatever the user's configuration says, restored afterwards."""
    with matplotlib.rc_context(), warnings.catch_warnings(), _errors_alone("matplotlib.mathtext"):
        # A character that the font lacks is drawn as a box; the page's text shows it.
        warnings.filterwarnings("ignore", message=".*Glyph .* missing from font.*")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**_STYLE, "svg.hashsalt": f"iclab-{salt}"})
        yield


@contextmanager
def _errors_alone(logger_name: str) -> Generator[None]:
    logger = logging.getLogger(logger_name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _compose(figure: Figure, panels: Sequence[PreparedPanel], styles: dict[Key, Style]) -> Canvas:
    columns = min(max(figure.columns, 1), 3) if figure.columns else column_count(len(figure.panels))
    rows = max(1, math.ceil(len(figure.panels) / columns))
    width, height = _FILE_PANEL_SIZES[columns]
    keys = legend_keys(figure)
    labels = [wrapped(label, int(columns * width * 10)) for label, _ in keys]
    longest = max((len(line) for label in labels for line in label.splitlines()), default=0)
    legend_columns = max(1, min(len(keys), int(columns * width / (0.62 + 0.082 * longest))))
    lines = sum(1 + label.count("\n") for label in labels)
    legend_height = 0.2 + 0.215 * math.ceil(lines / legend_columns) if keys else 0.0
    canvas = Canvas(figsize=(columns * width, rows * height + legend_height), layout="constrained")
    canvas.get_layout_engine().set(w_pad=0.08, h_pad=0.08, wspace=0.03, hspace=0.04)  # type: ignore[union-attr]
    for position, panel in enumerate(panels, 1):
        draw_panel(canvas.add_subplot(rows, columns, position), panel, styles, title=True)
    if keys:
        handles = [styles[key].handle() for key in keys]
        canvas.legend(
            handles, list(map(as_mathtext, labels)), loc="outside lower left", ncols=legend_columns, handlelength=3.0,
            columnspacing=1.6,
        )  # fmt: skip
    return canvas


def _draw_alone(panel: PreparedPanel, styles: dict[Key, Style]) -> tuple[bytes, list[str]]:
    canvas = Canvas(figsize=_PANEL_SIZE, layout="constrained", facecolor="none")
    notes = draw_panel(canvas.add_subplot(), panel, styles, title=False)
    return _svg(canvas, plain(panel.panel.title)), notes


def _svg(canvas: Canvas, title: str) -> bytes:
    buffer = io.BytesIO()
    FigureCanvasSVG(canvas)
    # Without date and version equal drawings are equal bytes.
    canvas.savefig(buffer, format="svg", metadata={"Title": title, "Creator": "iclab", "Date": None})
    # Matplotlib writes each label into a comment as well; the drawing is complete without.
    return re.sub(rb"\s*<!--.*?-->", b"", buffer.getvalue(), flags=re.DOTALL)


def _png(canvas: Canvas) -> bytes:
    buffer = io.BytesIO()
    FigureCanvasAgg(canvas)
    canvas.savefig(buffer, format="png", dpi=_RESOLUTION, metadata={"Software": "iclab"})
    return buffer.getvalue()
