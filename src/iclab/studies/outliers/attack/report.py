"""What attacks say: errors under the worst single outlier found, where it stands, and in which direction it points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from iclab.experiments.roles import Role
from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Finding, Panel, Reading, Table, Verdict
from iclab.results.wording import basis, by_learner, interval_note, number, quantity, series
from iclab.studies.outliers.training.report import roles_of

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

OWN = ("size", "attack", "position", "distance", "direction")
_ATTACKS: list[tuple[str, str, str, Role]] = [
    ("none", "random", "no outlier", "ceiling"),
    ("label", "random", "label alone, any place", "baseline"),
    ("random", "random", "random direction, any place", "baseline"),
    ("training", "random", "training outlier, any place", "ablation"),
    ("search", "worst", "worst of many random directions and places", "ablation"),
    ("gradient", "random", "gradient search, any place", "model"),
    ("gradient", "worst", "gradient search, worst place", "model"),
]
_SIZE = "size of the outlier, |delta| / |v|"
_HALF = 0.5


def summarise(results: Results) -> Reading:
    """Panels by place of the grid and learner."""
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
        ("distance", "error_at", "0-1 error under the gradient search by the place that it attacks.", _distance_panel),
        (
            "directions",
            "share",
            "What the worst outliers are made of: parts of |delta|^2 of the gradient search at its worst place.",
            _direction_panel,
        ),
    ):
        shown, left = capped([panel(title, rows) for title, rows, _ in groups], "summary.csv")
        note = interval_note(summary[summary["metric"] == metric])
        figures.append(Figure(name, f"{caption} {note}{left}", shown))
    return Reading(
        findings=[f for title, rows, training in groups for f in _findings(title, rows, training)],
        figures=figures,
        tables=[
            Table(
                "attack",
                "Error by attack; at the worst place where the adversary searches, else averaged over places. Distance "
                "and cosine are those of the worst outliers of the gradient search: the place from the query, and the "
                "angle with the sum of the outlier patterns (negative: the opposite of what training showed).",
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
                [row for title, rows, _ in groups for row in _rows(title, rows)],
            )
        ],
        notes=[
            "The adversary of the gradient search knows the model, the prompt and the query, and chooses one example "
            "of the context; the label there follows the rule. What it finds is a lower bound on the harm of the worst "
            "outlier, since a local search may miss it. The random search asks the model as often at each place. No "
            "published claim is about such outliers, so there is nothing to agree with; what is judged is whether the "
            "search does its work: it does where the 95 % interval of the random search's margin less its own, prompt "
            "by prompt, lies above 0 at every size, and does not where one lies below.",
        ],
    )


def _groups(point: GridPoint) -> Iterator[tuple[str, pd.DataFrame, float]]:
    """The rows of each learner, what to call them, and kappa_a in training."""
    for name, rows in by_learner(point.rows, roles_of(point.config)):
        yield f"{point.prefix}{name}", rows, float(point.config["prompts"]["outlier_size"])


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


def _findings(title: str, rows: pd.DataFrame, training: float) -> Iterator[Finding]:
    """The smallest size that misleads the model in half of the prompts, and what the search is worth."""
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
    yield Finding(f"{title}: {text}.")
    yield _search(title, rows, sizes)


def _search(title: str, rows: pd.DataFrame, sizes: list[float]) -> Finding:
    """Whether the gradient search finds more than as many random directions, on the same prompts."""
    if "search_gain" not in set(rows["metric"]):
        return Finding(f"{title}: this run kept no margins by prompt, so the search is not judged; run it again.")
    gains = [_one(rows, "search_gain", size) for size in sizes]
    smaller = sum(gain["value"] > 0 for gain in gains)
    verdict: Verdict = "undecided"
    if gains[0]["interval"] != "bootstrap":
        verdict = "information"
    elif any(gain["high"] < 0 for gain in gains):
        verdict = "disagrees"
    elif all(gain["low"] > 0 for gain in gains):
        verdict = "agrees"
    size = sizes[-1]
    clean, search, gradient = (
        float(_one(rows, "attacked_margin", size, attack=attack)["value"]) for attack in ("none", "search", "gradient")
    )
    margins = (
        f"{number(gradient / clean)} against {number(search / clean)} of the clean margin"
        if clean > 0
        else f"a margin of {number(gradient)} against {number(search)}, where the clean one is {number(clean)}"
    )
    return Finding(
        f"{title}: the gradient search leaves a smaller margin than as many random directions at {smaller} of "
        f"{len(sizes)} sizes ({margins} at |delta| = {size:g} |v|; difference {quantity(gains[-1])}, paired by prompt, "
        f"{basis(gains[-1])}). It should everywhere, or it is no search."
        + (" Fewer than 5 seeds: no verdict." if verdict == "information" else ""),
        verdict,
    )
