"""What attacks say: errors under the worst single outlier found, where it stands, and in which direction it points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iclab.claims.claim import ClaimResult, Estimate
from iclab.claims.li2025 import SEARCH
from iclab.claims.rules import judge
from iclab.experiments.roles import Role
from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Panel, Report, Table
from iclab.results.wording import basis, by_learner, interval_note, number, quantity, series
from iclab.studies.outliers.learners import roles_of

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

OWN = ("size", "attack", "position", "distance", "direction")
_ATTACKS: list[tuple[str, str, str, Role]] = [
    ("none", "random", "no outlier", "ceiling"),
    ("label", "random", "label alone, any position", "baseline"),
    ("random", "random", "random direction, any position", "baseline"),
    ("training", "random", "training outlier, any position", "ablation"),
    ("search", "worst", "worst of many random directions and positions", "ablation"),
    ("gradient", "random", "gradient search, any position", "model"),
    ("gradient", "worst", "gradient search, worst position", "model"),
]
_SIZE = "size of the outlier, |delta| / |v|"
_HALF = 0.5


def summarise(results: Results) -> Report:
    """Panels by grid point and learner."""
    groups = [g for p in grid_points(results, results.summary, swept_columns(results, own=OWN)) for g in _groups(p)]
    summary = results.summary
    figures = []
    for name, metric, caption, panel in (
        (
            "error",
            "error",
            "0-1 error of the query where one example of an otherwise unchanged prompt is made an outlier.",
            _error_panel,
        ),
        (
            "distance",
            "error_at",
            "0-1 error under the gradient search by the position that it attacks.",
            _distance_panel,
        ),
        (
            "directions",
            "share",
            "What the worst outliers are made of: parts of |delta|^2 of the gradient search at its worst position.",
            _direction_panel,
        ),
    ):
        shown, left = capped([panel(group.title, group.rows) for group in groups], "summary.csv")
        note = interval_note(summary[summary["metric"] == metric])
        figures.append(Figure(name, f"{caption} {note}{left}", shown))
    return Report(
        claims=[search_claim(group) for group in groups],
        notes=[_note(group) for group in groups],
        figures=figures,
        tables=[
            Table(
                "attack",
                "Error by attack; at the worst position where the adversary searches, else averaged over positions. "
                "Distance and cosine are those of the worst outliers of the gradient search: the position from the "
                "query, and the angle with the sum of the outlier patterns (negative: the opposite of training).",
                [
                    "setting",
                    "|delta|/|v|",
                    "random",
                    "training",
                    "search",
                    "gradient",
                    "distance",
                    "cosine",
                    "rests on",
                ],
                [row for group in groups for row in _rows(group.title, group.rows)],
            )
        ],
        methods=[
            "The adversary of the gradient search knows the model, the prompt and the query, and chooses one example "
            "of the context; the label there follows the rule. What it finds is a lower bound on the harm of the worst "
            "outlier, since a local search may miss it. The random search asks the model as often at each position. No "
            "published claim is about such outliers; what is judged is whether the search does its work.",
        ],
    )


@dataclass(frozen=True)
class Group:
    """The rows of one learner at a grid point."""

    point: GridPoint
    name: str
    rows: pd.DataFrame

    @property
    def title(self) -> str:
        """Of panels and rows of tables."""
        return f"{self.point.prefix}{self.name}"


def _groups(point: GridPoint) -> Iterator[Group]:
    for name, rows in by_learner(point.rows, roles_of(point.config)):
        yield Group(point, name, rows)


def _error_panel(title: str, rows: pd.DataFrame) -> Panel:
    errors = rows[rows["metric"] == "error"]
    curves = [
        series(found, "size", label, role)
        for attack, position, label, role in _ATTACKS
        if len(found := errors[(errors["attack"] == attack) & (errors["position"] == position)])
    ]
    return Panel(
        title, _SIZE, "0-1 error", curves, x_scale="log2", horizontal=[(_HALF, "chance")], y_limits=(0.0, 1.03)
    )


def _distance_panel(title: str, rows: pd.DataFrame) -> Panel:
    errors = rows[rows["metric"] == "error_at"]
    curves = [series(part, "distance", f"|delta|/|v| = {size:g}", "model") for size, part in errors.groupby("size")]
    return Panel(title, "distance from the query", "0-1 error", curves, y_limits=(0.0, 1.03))


def _direction_panel(title: str, rows: pd.DataFrame) -> Panel:
    shares = rows[rows["metric"] == "share"]
    curves = [series(part, "size", str(name), "model") for name, part in shares.groupby("direction", sort=False)]
    return Panel(title, _SIZE, "share of |delta|^2", curves, x_scale="log2", y_limits=(0.0, 1.03))


def _one(rows: pd.DataFrame, metric: str, size: float, **keys: str) -> pd.Series:
    found = rows[(rows["metric"] == metric) & (rows["size"] == size)]
    for key, value in keys.items():
        found = found[found[key] == value]
    return found.iloc[0]


def _rows(title: str, rows: pd.DataFrame) -> Iterator[list[str | float | int | None]]:
    for size in sorted(rows["size"].unique()):
        shown = [
            quantity(_one(rows, "error", size, attack=attack, position=position))
            for attack, position in (
                ("random", "random"),
                ("training", "random"),
                ("search", "worst"),
                ("gradient", "worst"),
            )
        ]
        distance, cosine = _one(rows, "distance", size), _one(rows, "cosine", size)
        yield [title, float(size), *shown, quantity(distance), quantity(cosine), basis(distance)]


def _note(group: Group) -> str:
    """The smallest size that misleads the model in half of the prompts."""
    title, rows = group.title, group.rows
    training = float(group.point.config["prompts"]["outlier_size"])
    sizes = sorted(rows["size"].unique())
    fooled = next(
        (s for s in sizes if _one(rows, "error", s, attack="gradient", position="worst")["value"] >= _HALF), None
    )
    if fooled is None:
        last = _one(rows, "error", sizes[-1], attack="gradient", position="worst")
        text = f"even at |delta| = {sizes[-1]:g} |v| its error under the search is {quantity(last)} ({basis(last)})"
    else:
        error = _one(rows, "error", fooled, attack="gradient", position="worst")
        plain = _one(rows, "error", fooled, attack="random", position="random")
        which = "smallest size measured, and one" if fooled == sizes[0] else "first size"
        text = (
            f"at |delta| = {fooled:g} |v|, the {which} at which one outlier misleads it in half of the prompts, the "
            f"error is {quantity(error)} under the search and {quantity(plain)} under a random outlier "
            f"({basis(error)}); in training outliers had {training:g} |v|"
        )
    return f"{title}: {text}."


def search_claim(group: Group) -> ClaimResult:
    """Judge whether the gradient search finds more than as many random directions, on the same prompts."""
    rows, sizes = group.rows, sorted(group.rows["size"].unique())
    remarks: list[str] = []
    gains: list[Estimate] = []
    if "search_gain" in set(rows["metric"]):
        gains = [Estimate.of(_one(rows, "search_gain", size), label=f"at |delta| = {size:g} |v|") for size in sizes]
        size = sizes[-1]
        clean, search, gradient = (
            float(_one(rows, "attacked_margin", size, attack=attack)["value"])
            for attack in ("none", "search", "gradient")
        )
        margins = (
            f"{number(gradient / clean)} against {number(search / clean)} of the clean margin"
            if clean > 0
            else f"a margin of {number(gradient)} against {number(search)}, where the clean one is {number(clean)}"
        )
        remarks.append(f"At |delta| = {size:g} |v| it leaves {margins}.")
    return judge(
        SEARCH,
        gains,
        subject=group.name,
        at=group.point.title,
        settings=group.point.key,
        unmet="" if gains else SEARCH.conditions[0],
        remarks=remarks,
    )
