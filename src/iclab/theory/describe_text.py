"""The dictionary of `describe_link` as a page of plain text."""

from __future__ import annotations

import textwrap
from typing import Any

_WIDTH = 100


def format_description(description: dict[str, Any]) -> str:
    """Format what `describe_link` returned as plain text; no colour, at most about 100 columns where it can."""
    lines = [f"link      {description['name']}"]
    lines.append(f"mean      {_number(description['mean'])}    variance  {_number(description['variance'])}")
    degree = description["degree"]
    lines.append(f"degree    {'not a polynomial' if degree is None else degree}")
    breakpoints = description["breakpoints"]
    if breakpoints:
        more = "" if len(breakpoints) <= 6 else f" ... ({len(breakpoints)} in all)"
        lines.append("kinks or jumps at " + ", ".join(f"{point:.6g}" for point in breakpoints[:6]) + more)
    lines += ["", "Hermite coefficients E g(z) h_k(z), h_k = He_k/sqrt(k!)"]
    pairs = zip(description["hermite_coefficients"], description["hermite_errors"], strict=True)
    lines += [f"  k = {k}   {0.0 if abs(c) <= e else c: .12f}   +- {e:.1e}" for k, (c, e) in enumerate(pairs)]
    rest, error = description["remaining_mass"], description["remaining_mass_error"]
    lines.append(f"  rest of the squared norm: {max(rest, 0.0):.3g} +- {error:.1e}")
    lines += [
        "",
        f"Exponents (a coefficient is zero below {description['tolerance']:g} of its size before cancellation)",
    ]
    lines.append(_exponent("information exponent ie", description["information_exponent"]))
    lines.append(_exponent("generative exponent ge", description["generative_exponent"]))
    for p in (1, 2):
        lines.append(_exponent(f"e_{p}: least power with degree {p}", description[f"e_{p}"]))
    lines += ["", f"ie after the gate y sigmoid(y/rho + b), label noise +-{description['noise']:g}"]
    for row in description["gated_exponents"]:
        lines.append(_exponent(f"rho = {row['rho']:g}, b = {row['b']:g}", row))
    lines += ["", "Context lengths, exponents up to constant factors (arXiv 2510.12026)"]
    lines += _table(description["rates"])
    for note in description["notes"]:
        lines += ["", *textwrap.wrap("Note: " + note, _WIDTH)]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{0.0 if abs(value) < 1e-15 else value:.10g}"


def _exponent(label: str, found: dict[str, Any]) -> str:
    value = found["value"]
    text = f"none up to {found['max_degree']}" if value is None else str(value)
    if value is not None:
        text += f"   (coefficient {found['deciding']:.3g} +- {found['errors'][value - 1]:.0e})"
    if found["undecided"]:
        text += f"   undecided: {found['reason']}"
    return f"  {label:<34}{text}"


def _table(rows: list[dict[str, Any]]) -> list[str]:
    head = ("learner", "pretraining context", "test context")
    cells = [head, *((row["learner"], row["pretraining_context"], row["test_context"]) for row in rows)]
    widths = [max(len(cell[column]) for cell in cells) for column in range(3)]
    return [
        "  " + "  ".join(text.ljust(width) for text, width in zip(cell, widths, strict=True)).rstrip() for cell in cells
    ]
