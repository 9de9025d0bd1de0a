"""What gates say: outliers against clean examples, and how fast clean ones are forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Finding, Panel, Reading, Series, Table, Verdict
from iclab.results.wording import basis, by_learner, interval_note, plural, quantity, series
from iclab.studies.outliers.training.learned import unlearned
from iclab.studies.outliers.training.report import roles_of

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

    Group = tuple[str, pd.DataFrame, str]

OWN = ("size", "layer", "group", "distance", "rank")
_TENTH = 0.1


def summarise(results: Results) -> Reading:
    """Panels by learner, layer and size of the outliers; nothing is averaged over sizes."""
    groups = [
        group
        for point in grid_points(results, results.summary, swept_columns(results, own=OWN))
        for group in _groups(point)
    ]
    by_distance, left = capped([_distance_panel(title, rows) for title, rows, _ in groups], "summary.csv")
    by_rank, also_left = capped([_rank_panel(title, rows) for title, rows, _ in groups], "summary.csv")
    gates = results.summary[results.summary["metric"] == "gate"]
    ranked = results.summary[results.summary["metric"] == "ranked_gate"]
    return Reading(
        findings=[finding for group in groups for finding in _findings(*group)],
        figures=[
            Figure(
                "gates",
                "Mean gate value G of outliers and of clean examples by distance from the query (1 is the last example "
                f"before it). {interval_note(gates)}{left}",
                by_distance,
            ),
            Figure(
                "decay",
                "Mean gate value of the j-th nearest clean example; lines: the fitted c q^(j-1), and the shape of the "
                f"published lower bound, 2^-(j-1), started at the nearest. {interval_note(ranked)}{also_left}",
                by_rank,
            ),
        ],
        tables=[
            Table(
                "gates",
                "Mean gates; q is the fitted factor by which the gate of a clean example falls from one to the next "
                "farther one.",
                ["setting", "outliers", "clean", "nearest clean", "outliers / nearest clean", "q", "rests on"],
                [_row(title, rows) for title, rows, _ in groups],
            )
        ],
        notes=[
            "How the verdicts are reached: outliers are suppressed where the 95 % interval of their mean gate over "
            "that of the nearest clean example lies below a tenth, and are not where it lies above. The bound 2^-(j-1) "
            "agrees where the interval of the least of G_j / (2^-(j-1) G_1) lies above 1, and disagrees where it lies "
            "below. Below 5 seeds there is no verdict, nor for stacks, since the claims are about one layer.",
            "Where a mean gate is zero in float64 there is no fit, and no ratio to it.",
            "A published bound holds up to a constant, here taken from the nearest clean example. The size kappa_a' of "
            "the outliers decides how far they are suppressed, since a combination of the patterns whose coefficients "
            "sum to little is short in the direction that the gate has learned.",
        ],
    )


def _groups(point: GridPoint) -> Iterator[Group]:
    """The rows of each learner, layer and size, with what to call them and why they are judged by no claim, if so."""
    for name, of_learner in by_learner(point.rows[point.rows["layer"].notna()], roles_of(point.config)):
        stack = of_learner["layer"].nunique() > 1
        reason = "The claim is about one layer: no verdict." if stack else unlearned(point.rows, name)
        for layer in sorted(of_learner["layer"].unique()):
            of_layer = of_learner[of_learner["layer"] == layer]
            told = f", layer {int(layer)}" if stack else ""
            for size, rows in of_layer.groupby("size"):
                yield f"{point.prefix}{name}{told}, kappa_a' = {size:g}", rows, reason


def _distance_panel(title: str, rows: pd.DataFrame) -> Panel:
    gates = rows[rows["metric"] == "gate"]
    curves = [
        series(gates[gates["group"] == group], "distance", label, role)
        for group, label, role in (("clean", "clean examples", "model"), ("outlier", "outliers", "ablation"))
    ]
    return Panel(title, "distance from the query", "gate value G", curves, y_scale="log")


def _rank_panel(title: str, rows: pd.DataFrame) -> Panel:
    gates = rows[rows["metric"] == "ranked_gate"].sort_values("rank")
    ranks = [int(rank) for rank in gates["rank"]]
    curves = [series(gates, "rank", "clean examples", "model")]
    factor, start = _one(rows, "decay"), _one(rows, "decay_start")
    if factor is not None and start is not None:
        fit = [float(start["value"] * factor["value"] ** (j - 1)) for j in ranks]
        bound = [float(gates["value"].iloc[0] * 2.0 ** (1 - j)) for j in ranks]
        curves.append(Series("fitted c q^(j-1)", ranks, fit, role="theory", like="clean examples"))
        curves.append(Series("2^-(j-1), published shape", ranks, bound, role="theory"))
    return Panel(title, "j, rank among clean examples", "gate value G", curves, y_scale="log")


def _one(rows: pd.DataFrame, metric: str, **keys: object) -> pd.Series | None:
    found = rows[rows["metric"] == metric]
    for key, value in keys.items():
        found = found[found[key] == value]
    return None if found.empty else found.iloc[0]


def _told(row: pd.Series | None, seeds: int) -> str:
    """The number, and how many seeds have none."""
    if row is None:
        return "none"
    missing = seeds - int(row["num_seeds"])
    return quantity(row) + (f", none in {plural(missing, 'seed')}" if missing else "")


def _row(title: str, rows: pd.DataFrame) -> list[str | float | int | None]:
    outliers, clean = (_one(rows, "mean_gate", group=group) for group in ("outlier", "clean"))
    nearest = _one(rows, "ranked_gate", rank=1)
    found = [outliers, clean, nearest, _one(rows, "outlier_ratio"), _one(rows, "decay")]
    seeds = _seeds(rows)
    return [title, *(_told(row, seeds) for row in found), basis(rows[rows["metric"] == "ranked_gate"].iloc[0])]


def _seeds(rows: pd.DataFrame) -> int:
    return int(rows["num_seeds"].max())


def _findings(title: str, rows: pd.DataFrame, reason: str) -> Iterator[Finding]:
    ratio, decay, over = (_one(rows, metric) for metric in ("outlier_ratio", "decay", "over_bound"))
    seeds = _seeds(rows)
    if ratio is None and over is None:
        yield Finding(f"{title}: the mean gate of the nearest clean example is 0 in float64: no verdict.")
    if ratio is not None:
        text = (
            f"{title}: the mean gate of outliers is {quantity(ratio)} of that of the nearest clean example "
            f"({basis(ratio)}). Claim: outliers are suppressed; taken as less than a tenth."
        )
        yield _judged(text, ratio, _TENTH, seeds, reason, below=True)
    if over is not None:
        fall = (
            "has a mean of 0 at some rank, so that no decay is fitted"
            if decay is None
            else f"falls by q = {_told(decay, seeds)} from one to the next"
        )
        text = (
            f"{title}: the gate of clean examples {fall}, and its least ratio to 2^-(j-1) times the nearest is "
            f"{quantity(over)} ({basis(over)}). Claim: it stays above that bound, so the ratio is at least 1."
        )
        yield _judged(text, over, 1.0, seeds, reason, below=False)


def _judged(text: str, row: pd.Series, limit: float, seeds: int, reason: str, *, below: bool) -> Finding:
    if row["num_seeds"] < seeds:
        missing = plural(seeds - int(row["num_seeds"]), "seed")
        return Finding(f"{text} In {missing} there is no such ratio: no verdict.")
    if row["interval"] != "bootstrap":
        return Finding(f"{text} Fewer than 5 seeds: no verdict.")
    if reason:
        return Finding(f"{text} {reason}")
    under, over = row["high"] < limit, row["low"] > limit
    verdict: Verdict = "undecided"
    if under or over:
        verdict = "agrees" if under == below else "disagrees"
    return Finding(text, verdict)
