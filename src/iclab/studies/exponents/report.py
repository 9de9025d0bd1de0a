"""What exponents say: the table before and after the gate, and how often the gate reaches the generative exponent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from iclab.results.grid_points import GridPoint, capped, grid_points, swept_columns
from iclab.results.page import Figure, Finding, Panel, Reading, Series, Table, Verdict

if TYPE_CHECKING:
    import pandas as pd

    from iclab.results.results import Results

_SHOWN_PANELS = 6

Outcome = Literal["equal", "differs", "undecided", "neither"]


def summarise(results: Results) -> Reading:
    """The table before and after the gate at every place of the grid, and the coefficients behind it."""
    summary = results.summary
    columns = swept_columns(results, own=("rho", "b", "degree"))
    points = grid_points(results, summary, columns)
    gates = list(dict.fromkeys(_gates(point) for point in points))
    rows = [row for point in points for row in _rows(point, one_set_of_gates=len(gates) == 1)]
    outcomes = {_name(point): outcome_of(point.rows) for point in points}
    panels, left_out = capped([_panel(point) for point in points], "the table 'exponents'", _SHOWN_PANELS)
    after = f"ie after the gate at (rho, b) = {gates[0]}" if len(gates) == 1 else "ie after the gate at (rho, b)"
    return Reading(
        findings=[_claim(points, outcomes, gates), _helped(points)],
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
                ["link" if columns in (["link"], []) else "place", "ie", "ge", after],
                rows,
            )
        ],
        notes=["Exact quadrature: no prompts, no seeds, no intervals."],
    )


def outcome_of(rows: pd.DataFrame) -> Outcome:
    """Whether the exponents after the gates are the generative one: ``neither`` where there is none up to the degree
    looked at and none after the gates, which verifies nothing; ``undecided`` where a number is."""
    ge, gated = _values(rows)
    if any(not math.isnan(value) and value != ge for value in gated) and not math.isnan(ge):
        return "differs"
    if math.isnan(ge) or any(map(math.isnan, gated)):
        return "undecided"
    return "neither" if math.isinf(ge) else "equal"


def _claim(points: Sequence[GridPoint], outcomes: dict[str, Outcome], gates: Sequence[str]) -> Finding:
    named = {kind: [name for name, found in outcomes.items() if found == kind] for kind in set(outcomes.values())}
    degree = max(point.config["max_degree"] for point in points)
    told = {
        "differs": "It does not for",
        "undecided": "Undecided, with coefficients too near zero to tell:",
        "neither": f"Neither is found up to degree {degree}, which verifies nothing:",
    }
    rest = "".join(f" {words} {_listed(named[kind])}." for kind, words in told.items() if kind in named)
    text = (
        f"The information exponent after the gate equals the generative exponent for {len(named.get('equal', []))} of "
        f"{len(points)} {_noun(points)}, at every gate tried; (rho, b) = {'; or '.join(gates)}.{rest}"
    )
    verdict: Verdict = "undecided"
    if "differs" in named:
        verdict = "disagrees"
    elif "equal" in named and "undecided" not in named:
        verdict = "agrees"
    return Finding(text, verdict)


def _helped(points: Sequence[GridPoint]) -> Finding:
    pairs = [(_first(p.rows, "information_exponent"), _first(p.rows, "generative_exponent")) for p in points]
    lower = sum(ge < ie for ie, ge in pairs)
    unknown = sum(math.isnan(ie) or math.isnan(ge) for ie, ge in pairs)
    rest = f" ({unknown} undecided)" if unknown else ""
    return Finding(f"{lower} of {len(points)} {_noun(points)} have ge < ie{rest}: for them the gate can help.")


def _noun(points: Sequence[GridPoint]) -> str:
    return "links" if all(set(point.key) <= {"link"} for point in points) else "places of the grid"


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
