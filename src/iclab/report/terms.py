"""The terms of the field as mathematics, in figures and on the page, from one table.

Texts hold terms as plain characters: ``N_pt``, ``kappa_a'``. They stay so in CSV files, results and descriptions for
screen readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from markupsafe import Markup, escape

TERMS: dict[str, str] = {
    # Sizes and symbols of prompts, models and pretraining.
    **{letter: letter for letter in ("N", "d", "r", "b", "k", "j", "q", "G", "K", "V")},
    "K'": "K'",
    "M1": "M_1",
    "M2": "M_2",
    "T1": "T_1",
    "N_pt": "N_{pt}",
    "l_tr": "l_{tr}",
    "l_ts": "l_{ts}",
    "p_a": "p_a",
    "alpha": r"\alpha",
    "beta": r"\beta",
    "gamma": r"\gamma",
    "gamma*": r"\gamma^*",
    "rho": r"\rho",
    "kappa_a": r"\kappa_a",
    "kappa_a'": r"\kappa_a'",
    "delta": r"\delta",
    "|v|": "|v|",
    "|delta|^2": r"|\delta|^2",
    # Statistics of a prompt, and formulas of captions, findings and notes.
    "S": "S",
    "S_1": "S_1",
    "|S|^2": "|S|^2",
    "E|S|^2": "E|S|^2",
    "S.u": r"S \cdot u",
    "G_j": "G_j",
    "G_1": "G_1",
    "2^-(j-1)": "2^{-(j-1)}",
    "q^(j-1)": "q^{j-1}",
    "c q^(j-1)": "c q^{j-1}",
    "c_k^2": "c_k^2",
    "a^(2k)": "a^{2k}",
    "sum_k": r"\Sigma_k",
    "r^Theta(ge)": r"r^{\Theta(ge)}",
    "p_i'": r"p_i^{\top}",
    "p_q": "p_q",
    "W_B'": r"W_B^{\top}",
    "W_C": "W_C",
}
"""A term as texts hold it, and in LaTeX: letters, Greek commands, one level of ``_`` and ``^``, and primes."""

# A letter inside a word, an attribute or a contraction is no term. Longer terms win over their beginnings.
_TERM = re.compile(rf"(?<![\w.'’])(?:{'|'.join(map(re.escape, sorted(TERMS, key=len, reverse=True)))})(?![\w'’(^])")
_SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "kappa": "κ", "rho": "ρ", "Theta": "Θ", "Sigma": "Σ",
    "cdot": "⋅", "top": "⊤",
}  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_SCRIPT = re.compile(r"([_^])(?:\{([^}]*)\}|(.))")
_TAGS = {"_": "sub", "^": "sup"}


def as_mathtext(text: str) -> str:
    """``text`` for matplotlib, terms as formulas; a dollar sign of the text itself stays a dollar sign."""
    return _with_terms(text, lambda rest: rest.replace("$", r"\$"), lambda latex: f"${latex}$")


def as_html(text: str) -> Markup:
    """``text`` escaped for HTML, terms in italics with sub- and superscripts."""
    return Markup(_with_terms(text, lambda rest: str(escape(rest)), _html))


def _with_terms(text: str, outside: Callable[[str], str], inside: Callable[[str], str]) -> str:
    parts: list[str] = []
    end = 0
    for match in _TERM.finditer(text):
        parts += [outside(text[end : match.start()]), inside(TERMS[match.group()])]
        end = match.end()
    return "".join([*parts, outside(text[end:])])


def _html(latex: str) -> str:
    # LaTeX sets a prime above a subscript; in a line of text it comes first.
    shown = re.sub(r"^(.+?)(_\S+?)'$", r"\1'\2", latex).replace("'", "′")
    shown = _COMMAND.sub(lambda command: _SYMBOLS[command[1]], shown)
    return f"<var>{_SCRIPT.sub(_script, shown)}</var>"


def _script(match: re.Match[str]) -> str:
    tag = _TAGS[match[1]]
    return f"<{tag}>{(match[2] or match[3]).replace('-', '−')}</{tag}>"
