"""The exact numbers printed in docs/theory/finite_size.md are those that the code computes."""

from pathlib import Path

import pytest

from iclab.evaluation import readout_error
from iclab.links import make_link
from iclab.theory import GateMoments, first_step, optimal_gate_curve

PAGE = (Path(__file__).parents[2] / "docs/theory/finite_size.md").read_text()
MAIN = make_link("2*exp(-3/2)*sin(z) - sin(2*z)", standardise=True)


def _rows(after: str) -> list[list[str]]:
    lines = PAGE.split(after)[1].splitlines()
    table = [line for line in lines[: next(i for i, x in enumerate(lines) if i > 3 and not x.startswith("|"))] if line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_table_of_optimal_gates() -> None:
    rows = {int(row[0]): [float(cell) for cell in row[1:]] for row in _rows("<!-- table: optimal gate -->")}
    lengths = [256, 4096, 1048576]
    columns = [("he3", 2), ("he3", 8), (MAIN, 8)]
    for position, (link, dim) in enumerate(columns):
        g = make_link(link)
        for best in optimal_gate_curve(g, lengths, dim):
            alignment, error = rows[best.num_examples][2 * position : 2 * position + 2]
            assert best.alignment == pytest.approx(alignment, abs=6e-4)
            assert readout_error(g, best.alignment)[0] == pytest.approx(error, abs=2e-3)


def test_energies_of_the_blocks() -> None:
    for row in _rows("in units of $(E\\,S\\cdot\\beta)^2$:\n"):
        link = MAIN if row[0] == "main link" else make_link("he3")
        moments = GateMoments(link, 0.0, 0.3, -15.0, 1024)
        energy = moments.block_energy(int(row[1])) / moments.mean[1] ** 2
        assert energy[1:] == pytest.approx([float(row[2]), float(row[3])], rel=6e-3)


def test_terms_of_the_first_step() -> None:
    quadratic, label = first_step(GateMoments(MAIN, 0.0, 0.3, -15.0, 512), 16)[1]
    assert f"{quadratic:,.0f}" in PAGE
    assert f"{label:,.0f}" in PAGE
    assert f"{quadratic + label:,.0f}" in PAGE


def test_expected_resets() -> None:
    for name, rho, b, length, printed in (
        (MAIN, 0.5, -9.0, 1024, 0.66),
        (MAIN, 0.5, -9.0, 4096, 2.6),
        ("he3", 0.5, -9.0, 1024, 4.4),
        ("he3", 0.5, -9.0, 4096, 17.7),
        (MAIN, 0.3, -15.0, 1024, 0.016),
        (MAIN, 0.3, -15.0, 4096, 0.065),
    ):
        assert length * GateMoments(name, 0.0, rho, b).token.loss == pytest.approx(printed, rel=0.02)
        assert str(printed) in PAGE
