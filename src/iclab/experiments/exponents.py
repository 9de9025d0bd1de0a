"""Exponents of links before and after the gate: exact, without sampling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import Field

from iclab.experiments.kind import Config, ExperimentKind
from iclab.experiments.reading import Figure, Finding, Panel, Reading, Series, Table
from iclab.experiments.sections import LinkSpec

if TYPE_CHECKING:
    from iclab.evaluation import Measurement
    from iclab.runs.results import Results
    from iclab.theory.exponents import Exponent

_SHOWN_PANELS = 6


class ExponentsConfig(Config):
    """One link. ``gates`` are pairs ``[rho, b]``; ``seed`` is there for uniformity and changes nothing."""

    seed: int = Field(0, ge=0)
    link: LinkSpec = "he3"
    noise: float = Field(0.0, ge=0)
    gates: list[tuple[float, float]] = Field([(0.5, -3.0), (1.0, -3.0), (2.0, -3.0), (1.0, -8.0)], min_length=1)
    max_degree: int = Field(8, ge=1, le=40)


def run_cell(config: ExponentsConfig) -> list[Measurement]:
    """Exponents and the coefficients that decide them."""
    from iclab.evaluation import Measurement
    from iclab.links import make_link
    from iclab.theory import gated_exponent, generative_exponent, information_exponent

    link = make_link(config.link)
    before = information_exponent(link, config.max_degree)
    measured = [
        Measurement.exact("link", "information_exponent", _number(before)),
        Measurement.exact("link", "generative_exponent", _number(generative_exponent(link, config.max_degree))),
        *_coefficients("before the gate", before),
    ]
    for rho, b in config.gates:
        after = gated_exponent(link, rho, b, config.noise, config.max_degree)
        keys: dict[str, str | int | float] = {"rho": rho, "b": b}
        measured.append(Measurement.exact("link", "gated_exponent", _number(after), keys=keys))
        measured.extend(_coefficients(f"after the gate, rho {rho:g}, b {b:g}", after))
    return measured


def _number(exponent: Exponent) -> float:
    """The exponent; infinite where none was found; NaN where undecided."""
    if exponent.undecided:
        return math.nan
    return math.inf if exponent.value is None else float(exponent.value)


def _coefficients(learner: str, exponent: Exponent) -> list[Measurement]:
    from iclab.evaluation import Measurement

    verdicts = zip(exponent.coefficients, exponent.verdicts, strict=True)
    return [
        Measurement.exact(learner, "coefficient", abs(c) if verdict != "zero" else 0.0, keys={"degree": degree})
        for degree, (c, verdict) in enumerate(verdicts, start=1)
    ]


def read(results: Results) -> Reading:
    """The table before and after the gate, and the coefficients behind it."""
    summary = results.summary
    swept = "link" in summary.columns
    links = list(summary["link"].unique()) if swept else [results.experiment["config"]["link"]]
    rows, equal, panels = [], [], []
    for link in links:
        part = summary[summary["link"] == link] if swept else summary
        values = {metric: list(group["value"]) for metric, group in part.groupby("metric", sort=False)}
        ge, gated = values["generative_exponent"][0], values["gated_exponent"]
        equal.append(all(value == ge for value in gated))
        rows.append([str(link), _word(values["information_exponent"][0]), _word(ge), ", ".join(map(_word, gated))])
        panels.append(_panel(str(link), part))
    gates = ", ".join(f"({rho:g}, {b:g})" for rho, b in results.experiment["config"]["gates"])
    differing = [str(link) for link, same in zip(links, equal, strict=True) if not same]
    claim = Finding(
        f"The information exponent after the gate equals the generative exponent for {sum(equal)} of {len(links)} "
        "links, "
        f"at every gate tried; (rho, b) = {gates}."
        + (f" It does not for {', '.join(differing)}." if differing else ""),
        "agrees" if not differing else "disagrees",
    )
    lowered = sum(row[1] != row[2] for row in rows)
    return Reading(
        findings=[claim, Finding(f"{lowered} of {len(links)} links have ge < ie: for them the gate can help.")],
        figures=[
            Figure(
                "coefficients",
                "Size of the normalised Hermite coefficients, in units of the function's own norm. The first "
                "degree with "
                "a point is the exponent. Coefficients that are zero to within the tolerance are left out. "
                f"{'The first six links of the grid; the table has all.' if len(panels) > _SHOWN_PANELS else ''}",
                panels[:_SHOWN_PANELS],
            )
        ],
        tables=[
            Table(
                "exponents",
                "Exact exponents. 'none' means no non-zero coefficient up to the degree looked at.",
                ["link", "ie", "ge", f"ie after the gate at (rho, b) = {gates}"],
                rows,
            )
        ],
        notes=["Exact quadrature: no prompts, no seeds, no intervals."],
    )


def _panel(link: str, part) -> Panel:
    coefficients = part[part["metric"] == "coefficient"]
    curves = []
    for learner, group in coefficients.groupby("learner", sort=False):
        shown = group[group["value"] > 0]
        role = "baseline" if learner == "before the gate" else "model"
        curves.append(Series(str(learner), list(map(float, shown["degree"])), list(shown["value"]), role=role))
    return Panel(link, "degree k", "size of the coefficient", curves, y_scale="log")


def _word(value: float) -> str:
    if math.isnan(value):
        return "undecided"
    return "none" if math.isinf(value) else f"{value:.0f}"


def check(config: ExponentsConfig) -> None:
    """Refuse links that cannot be used, and gates that are none."""
    from iclab.links import make_link
    from iclab.theory import LabelWeight

    make_link(config.link)
    for rho, b in config.gates:
        LabelWeight("mamba", rho, b)


KIND = ExperimentKind(ExponentsConfig, run_cell, lambda config: 0.3, read, check)
