"""The table printed in docs/theory/exponents.md is what the code computes today."""

from pathlib import Path

from iclab.links import make_link
from iclab.theory.exponents import e_p, gated_exponent, information_exponent
from iclab.theory.generative import generative_exponent

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "exponents.md"
LINKS = (
    "he1", "he2", "he3", "he4", "he5", "he6", "he3(z)+he4(z)", "he2(z)+he4(z)", "he2(z)+he3(z)", "z**2*exp(-z**2)",
    "relu", "abs", "sign", "tanh(z)-0.605706*z", "2*exp(-3/2)*sin(z)-sin(2*z)",
)  # fmt: skip


def row(text: str) -> str:
    link = make_link(text)
    ie, ge = information_exponent(link), generative_exponent(link)
    levels = generative_exponent(link, method="levels")
    gated = [gated_exponent(link, rho, b).value for rho, b in ((1.0, -3.0), (0.5, -9.0), (0.3, -15.0), (1.0, 0.0))]
    powers = [e_p(link, p).value for p in (1, 2)]
    strengths = [
        f"{c:.2f}" if v == "nonzero" else "0" for c, v in zip(levels.coefficients, levels.verdicts, strict=True)
    ]
    cells = [f"`{text}`", ie.value, f"{ie.deciding:.3g}", ge.value, levels.value, *strengths[:2], *gated, *powers]
    return "| " + " | ".join("none" if cell is None else str(cell) for cell in cells) + " |"


def table() -> str:
    return "\n".join(row(text) for text in LINKS)


def test_the_table_of_the_page_is_reproduced():
    section = PAGE.read_text(encoding="utf-8").split("## Reproduced values")[1]
    printed = [line for line in section.splitlines() if line.startswith("| `")]
    assert printed == table().splitlines()
