"""What an experiment shows, as plain data: claims, notes, figures and tables. `iclab.report` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from iclab.experiments.roles import Role

if TYPE_CHECKING:
    from iclab.claims.claim import ClaimResult

Scale = Literal["linear", "log", "log2", "symlog"]
Relation = Literal["=", "<=", ">"]


@dataclass(frozen=True)
class Series:
    """One curve.

    Attributes:
        label: the legend's label. Series with one label have one colour throughout a report.
        x, y: of equal length; NaN leaves a gap.
        low, high: the interval at each x, or empty.
        seeds: one list of y values a seed, drawn as faint points; empty where there are no seeds.
        role: decides the style: theory curves are lines without markers, baselines are dashed, and so on.
        band: what low and high are, e.g. ``95 % over 5 seeds``; goes to the data table.
        like: the label whose colour and marker this curve shares: a theory curve, that of what it describes.
        relations: one for each x, or empty where all are ``=``: a value that is known to be ``<=`` or ``>`` its y is
            drawn as an open arrow that no line joins.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    seeds: Sequence[Sequence[float]] = ()
    role: Role = "model"
    band: str = ""
    like: str = ""
    relations: Sequence[Relation] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes. ``vertical`` and ``horizontal`` are reference lines: (position, label)."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    vertical: Sequence[tuple[float, str]] = ()
    horizontal: Sequence[tuple[float, str]] = ()
    y_limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class Figure:
    """Panels that are read together. ``name`` is a file name without its ending; ``caption`` is a sentence or two.

    ``columns`` of the grid in a file, 1 to 3; left to the drawing if ``None``. Panels whose y axes have one label and
    scale share their limits, unless ``share_y`` is false; so do x axes.
    """

    name: str
    caption: str
    panels: Sequence[Panel]
    columns: int | None = None
    share_y: bool = True


@dataclass(frozen=True)
class Table:
    """A table: cells are strings or numbers (shown to 3-4 significant digits)."""

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int | None]]


@dataclass(frozen=True)
class Report:
    """Everything that the results of a run say.

    Attributes:
        claims: verdicts on what was claimed.
        notes: what was found beside, as sentences.
        figures, tables: the numbers.
        methods: how they were measured, as sentences.
        warning: a sentence that stands above all else, such as that cells are missing.
    """

    claims: Sequence[ClaimResult] = ()
    notes: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    methods: Sequence[str] = ()
    warning: str = ""
