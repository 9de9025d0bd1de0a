"""Terms as mathematics: one table for figures and page, and nothing else of a text changes."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.mathtext import MathTextParser

from iclab.report.drawing import draw_figure
from iclab.report.styles import assign_styles
from iclab.report.terms import TERMS, as_html, as_mathtext
from iclab.results.page import Figure, Panel, Series
from iclab.studies.outliers.names import TEST_LETTERS, TRAINING_LETTERS


@pytest.mark.parametrize(
    ("text", "mathtext", "html"),
    [
        ("N_pt", "$N_{pt}$", "<var>N<sub>pt</sub></var>"),
        ("kappa_a' = 2", r"$\kappa_a'$ = 2", "<var>κ′<sub>a</sub></var> = 2"),
        ("p_a l_tr/l_ts", "$p_a$ $l_{tr}$/$l_{ts}$",
         "<var>p<sub>a</sub></var> <var>l<sub>tr</sub></var>/<var>l<sub>ts</sub></var>"),
        ("d = 16, r = 2", "$d$ = 16, $r$ = 2", "<var>d</var> = 16, <var>r</var> = 2"),
        ("|gamma*|", r"|$\gamma^*$|", "|<var>γ<sup>*</sup></var>|"),
        ("2^-(j-1), rho", r"$2^{-(j-1)}$, $\rho$", "<var>2<sup>−(j−1)</sup></var>, <var>ρ</var>"),
        ("r^Theta(ge) examples", r"$r^{\Theta(ge)}$ examples", "<var>r<sup>Θ(ge)</sup></var> examples"),
        ("E[S.u] / sqrt(E|S|^2)", r"E[$S \cdot u$] / sqrt($E|S|^2$)",
         "E[<var>S ⋅ u</var>] / sqrt(<var>E|S|<sup>2</sup></var>)"),
    ],
)  # fmt: skip
def test_terms(text: str, mathtext: str, html: str) -> None:
    assert as_mathtext(text) == mathtext
    assert as_html(text) == html


@pytest.mark.parametrize(
    "text", ["None and bad", "model.d", "I'd say", "alphabet", "he2(z) + he3(z)", "N_ptx", "k'", "r2"]
)
def test_what_is_no_term_stays(text: str) -> None:
    assert as_mathtext(text) == text
    assert re.sub(r"&#39;", "'", as_html(text)) == text


def test_letters_of_the_papers_are_terms() -> None:
    letters = {*TEST_LETTERS.values(), *TRAINING_LETTERS.values()}
    assert {letter for letter in letters if not re.fullmatch("[a-z ]{5,}", letter)} <= set(TERMS)


def test_every_term_is_drawn_and_is_whole_html() -> None:
    parser = MathTextParser("path")
    for term in TERMS:
        assert parser.parse(as_mathtext(term)).width > 0
        html = as_html(term)
        assert html.startswith("<var>")
        assert not re.search(r"[\\{}_^']", html)


class Text(HTMLParser):
    """The text of a fragment."""

    def __init__(self, fragment: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.feed(fragment)
        self.close()

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(alphabet=st.sampled_from("aNd r_kp'$\\{}^<>&\"ß漢b"), max_size=40))
def test_any_text_can_be_drawn_and_is_escaped(text: str) -> None:
    drawn = as_mathtext(text)
    assert (drawn.count("$") - text.count("$")) % 2 == 0
    html = as_html(text)
    assert not set(re.findall(r"<[^>]*>", html)) - {
        f"<{end}{tag}>" for end in ("", "/") for tag in ("var", "sub", "sup")
    }
    if "<var>" not in html:
        assert Text(html).text == text


def test_hostile_labels_with_terms_are_drawn(caplog: pytest.LogCaptureFixture) -> None:
    label = "$N \\frac{1}{ 漢 N_pt \\$ d_{ $$"
    figure = Figure("f", "", [Panel(label, label, label, [Series(label, [1, 2], [1, 2])], vertical=[(1, label)])])
    assert draw_figure(figure, assign_styles([figure])).svg.startswith(b"<?xml")
    assert not caplog.records
