"""What exponents say: the table before and after the gate, and how often the gate reaches the generative exponent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from iclab.claims.claim import ClaimResult, Estimate
from iclab.claims.oh2025 import EXPONENT, EXPONENT_EXISTS
from iclab.claims.rules import judge
from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Panel, Report, Series, Table

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

_SHOWN_PANELS = 6


def summarise(results: Results) -> Report:
    """The table before and after the gate at every grid point, and the coefficients behind it."""
    summary = results.summary
    columns = swept_columns(results, own=("rho", "b", "degree"))
    points = grid_points(results, summary, columns)
    gates = list(dict.fromkeys(_gates(point) for point in points))
    rows = [row for point in points for row in _rows(point, one_set_of_gates=len(gates) == 1)]
    panels, left_out = capped([_panel(point) for point in points], "the table 'exponents'", _SHOWN_PANELS)
    after = f"ie after the gate at (rho, b) = {gates[0]}" if len(gates) == 1 else "ie after the gate at (rho, b)"
    return Report(
        claims=[exponent_claim({_name(point): point.rows for point in points}, _remarks(points, gates))],
        notes=[_helped(points)],
        figures=[
            Figure(
                "coefficients",
                "Size of the normalised Hermite coefficients, in units of the function's own norm. The first degree "
                "with a point is the exponent. Coefficients that are zero to within the tolerance are left out. Exact: "
                f"no intervals.{left_out}",
                panels,
            )
        ],
        tables=[
            Table(
                "exponents",
                "Exact exponents. 'none' means no non-zero coefficient up to the degree looked at; 'undecided', that "
                "some coefficient cannot be told from zero.",
                ["link" if columns in (["link"], []) else "grid point", "ie", "ge", after],
                rows,
            )
        ],
        methods=["Exact quadrature: no prompts, no seeds, no intervals."],
    )


def exponent_claim(tables: Mapping[str, pd.DataFrame], remarks: Sequence[str] = ()) -> ClaimResult:
    """Judge whether the exponents after the gates are the generative ones.

    Args:
        tables: rows of the summary by the name of the link or grid point. Those with neither a generative exponent up
            to the degree looked at nor one after the gates verify nothing and do not count.
        remarks: further facts.
    """
    estimates, neither, failing, open_ = [], [], [], []
    for name, rows in tables.items():
        ge, gated = _values(rows)
        if math.isinf(ge) and all(map(math.isinf, gated)):
            neither.append(name)
            continue
        estimates.extend(replace(Estimate.exact(value, f"for {name}"), threshold=ge) for value in gated)
        differs = not math.isnan(ge) and any(not math.isnan(value) and value != ge for value in gated)
        (failing if differs else open_ if math.isnan(ge) or any(map(math.isnan, gated)) else []).append(name)
    holds = len(tables) - len(neither) - len(failing) - len(open_)
    lists = (
        (f"It holds for {holds} of {len(tables)}, at every gate tried", [""]),
        ("It does not for", failing),
        ("Undecided, with coefficients too near zero to tell:", open_),
        ("Neither is found up to the degree looked at, which verifies nothing:", neither),
    )
    facts = [f"{words} {_listed(names)}".rstrip() + "." for words, names in lists if names]
    return judge(EXPONENT, estimates, unmet="" if estimates else EXPONENT_EXISTS, remarks=[*facts, *remarks])


def _remarks(points: Sequence[GridPoint], gates: Sequence[str]) -> list[str]:
    degree = max(point.config["max_degree"] for point in points)
    return [f"Degrees up to {degree} were looked at; (rho, b) = {'; or '.join(gates)}."]


def _helped(points: Sequence[GridPoint]) -> str:
    pairs = [(_first(p.rows, "information_exponent"), _first(p.rows, "generative_exponent")) for p in points]
    lower = sum(ge < ie for ie, ge in pairs)
    unknown = sum(math.isnan(ie) or math.isnan(ge) for ie, ge in pairs)
    rest = f" ({unknown} undecided)" if unknown else ""
    return f"{lower} of {len(points)} {_noun(points)} have ge < ie{rest}: for them the gate can help."


def _noun(points: Sequence[GridPoint]) -> str:
    return "links" if all(set(point.key) <= {"link"} for point in points) else "grid points"


def _listed(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more (see the table)" if len(names) > most else "")


def _values(rows: pd.DataFrame) -> tuple[float, list[float]]:
    """The generative exponent, and those after each gate."""
    gated = rows[rows["metric"] == "gated_exponent"]["value"]
    return _first(rows, "generative_exponent"), list(map(float, gated))


def _first(rows: pd.DataFrame, metric: str) -> float:
    return float(rows[rows["metric"] == metric]["value"].iloc[0])


def _rows(point: GridPoint, *, one_set_of_gates: bool) -> list[list[str | float | int | None]]:
    ge, gated = _values(point.rows)
    after = ", ".join(map(_word, gated))
    if not one_set_of_gates:
        after = ", ".join(f"{gate}: {_word(v)}" for gate, v in zip(_each_gate(point), gated, strict=True))
    return [[_name(point), _word(_first(point.rows, "information_exponent")), _word(ge), after]]


def _name(point: GridPoint) -> str:
    """The link alone where nothing else is swept."""
    if set(point.key) <= {"link"}:
        return str(point.key.get("link", point.config["link"]))
    return point.title


def _each_gate(point: GridPoint) -> list[str]:
    return [f"({rho:g}, {b:g})" for rho, b in point.config["gates"]]


def _gates(point: GridPoint) -> str:
    return ", ".join(_each_gate(point))


def _panel(point: GridPoint) -> Panel:
    coefficients = point.rows[point.rows["metric"] == "coefficient"]
    curves = []
    for learner, group in coefficients.groupby("learner", sort=False):
        shown = group[group["value"] > 0]
        role = "baseline" if learner == "before the gate" else "model"
        curves.append(Series(str(learner), list(map(float, shown["degree"])), list(shown["value"]), role=role))
    return Panel(_name(point), "degree k", "size of the coefficient", curves, y_scale="log")


def _word(value: float) -> str:
    if math.isnan(value):
        return "undecided"
    return "none" if math.isinf(value) else f"{value:.0f}"
