"""What gates say: outliers against clean examples, and how fast clean ones are forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iclab.claims.claim import Claim, ClaimResult, Estimate
from iclab.claims.li2025 import ALL_SEEDS, DECAY, LEARNED, ONE_LAYER, SUPPRESSED
from iclab.claims.rules import judge
from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Panel, Report, Series, Table
from iclab.results.wording import basis, by_learner, interval_note, plural, quantity, series
from iclab.studies.outliers.error.conditions import final_loss_text
from iclab.studies.outliers.learners import roles_of

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

OWN = ("size", "layer", "group", "distance", "rank")


def summarise(results: Results) -> Report:
    """Panels by learner, layer and size of the outliers; nothing is averaged over sizes."""
    groups = [
        group
        for point in grid_points(results, results.summary, swept_columns(results, own=OWN))
        for group in _groups(point)
    ]
    titled = [(group.title, group.rows) for group in groups]
    by_distance, left = capped([_distance_panel(title, rows) for title, rows in titled], "summary.csv")
    by_rank, also_left = capped([_rank_panel(title, rows) for title, rows in titled], "summary.csv")
    gates = results.summary[results.summary["metric"] == "gate"]
    ranked = results.summary[results.summary["metric"] == "ranked_gate"]
    return Report(
        claims=[found for group in groups for found in gate_claims(group)],
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
                [_row(title, rows) for title, rows in titled],
            )
        ],
        methods=[
            "Where a mean gate is zero in float64 there is no fit, and no ratio to it.",
            "A published bound holds up to a constant, here taken from the nearest clean example. The size kappa_a' of "
            "the outliers decides how far they are suppressed, since a combination of the patterns whose coefficients "
            "sum to little is short in the direction that the gate has learned.",
        ],
    )


@dataclass(frozen=True)
class Group:
    """The rows of one learner, layer and size of outliers at a grid point.

    Attributes:
        point: the grid point.
        name: the learner and, of a stack, its layer.
        size: kappa_a'.
        rows: of the summary.
        unmet: the condition of the claims that fails here; empty where none does.
        remark: what says so.
    """

    point: GridPoint
    name: str
    size: float
    rows: pd.DataFrame
    unmet: str = ""
    remark: str = ""

    @property
    def title(self) -> str:
        """Of panels and rows of tables."""
        return f"{self.point.prefix}{self.name}, kappa_a' = {self.size:g}"


def _groups(point: GridPoint) -> Iterator[Group]:
    for name, of_learner in by_learner(point.rows[point.rows["layer"].notna()], roles_of(point.config)):
        stack = of_learner["layer"].nunique() > 1
        loss = final_loss_text(point.rows, name)
        unmet = ONE_LAYER if stack else LEARNED if loss else ""
        for layer in sorted(of_learner["layer"].unique()):
            of_layer = of_learner[of_learner["layer"] == layer]
            which = f", layer {int(layer)}" if stack else ""
            for size, rows in of_layer.groupby("size"):
                yield Group(point, f"{name}{which}", float(size), rows, unmet, loss)


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


def _quantity(row: pd.Series | None, seeds: int) -> str:
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
    return [title, *(_quantity(row, seeds) for row in found), basis(rows[rows["metric"] == "ranked_gate"].iloc[0])]


def _seeds(rows: pd.DataFrame) -> int:
    return int(rows["num_seeds"].max())


def gate_claims(group: Group) -> list[ClaimResult]:
    """Judge whether outliers are suppressed, and whether the gate of clean examples stays above its bound."""
    ratio, decay, over = (_one(group.rows, metric) for metric in ("outlier_ratio", "decay", "over_bound"))
    if decay is None:
        fall = "A mean gate is 0 at some rank, so that no decay is fitted." if over is not None else ""
    else:
        fall = f"The gate falls by q = {_quantity(decay, _seeds(group.rows))} from one to the next."
    return [_judge(SUPPRESSED, group, ratio), _judge(DECAY, group, over, fall)]


def _judge(claim: Claim, group: Group, row: pd.Series | None, remark: str = "") -> ClaimResult:
    seeds = _seeds(group.rows)
    missing = 0 if row is None else seeds - int(row["num_seeds"])
    none = "The mean gate of the nearest clean example is 0 in float64, or no example has it." if row is None else ""
    some = f"In {plural(missing, 'seed')} there is no such ratio." if missing else ""
    return judge(
        claim,
        [] if row is None else Estimate.of(row),
        subject=group.name,
        at=", ".join(filter(None, [group.point.title, f"kappa_a' = {group.size:g}"])),
        settings={**group.point.key, "size": group.size},
        unmet=group.unmet or (ALL_SEEDS if missing else ""),
        remarks=[remark, none, some, group.remark],
    )
