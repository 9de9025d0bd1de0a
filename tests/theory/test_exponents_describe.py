"""Rates and the description of a link, as data and as text."""

import json

import pytest

from iclab.errors import InputError
from iclab.links import make_link
from iclab.theory.describe import _notes, describe_link
from iclab.theory.describe_text import format_description
from iclab.theory.expansion import hermite_expansion
from iclab.theory.exponents import Exponent
from iclab.theory.rates import RATES, rates


def test_rates_of_a_cubic_are_those_of_the_published_table():
    # he3: ie 3, ge 1, degree 3.
    rows = {row["learner"]: (row["pretraining_context"], row["test_context"]) for row in rates(make_link("he3"))}
    assert list(rows.values()) == [
        ("none", "d^Theta(3)"),
        ("none", "d^Theta(3)"),
        ("none", "d^Theta(1)"),
        ("d^Theta(3)", "r^Theta(3)"),
        ("d^Theta(3)", "r^Theta(1)"),
        ("d^Theta(1)", "r^Theta(1)"),
    ]


def test_each_rate_uses_the_right_exponent():
    # Distinct numbers for ie, ge and degree tell them apart.
    assert [rate.pretraining(11, 7, 13) for rate in RATES] == [None, None, None, 11, 11, 7]
    assert [rate.test(11, 7, 13) for rate in RATES] == [13, 11, 7, 13, 7, 7]
    assert [rate.test_context.base for rate in RATES] == ["d", "d", "d", "r", "r", "r"]
    assert all("2510.12026" in rate.source for rate in RATES)


def test_rates_say_what_does_not_apply():
    rows = rates(make_link("z2exp"))
    assert rows[0]["test_context"] == "not covered (no polynomial)"
    assert rows[0]["test_exponent"] is None
    assert rows[-1]["test_context"] == "r^Theta(4)"
    assert "unknown" in str(rates(make_link("sin(50*z)"))[1]["test_context"])


def test_description_is_json_and_names_everything():
    description = describe_link(make_link("he3"))
    assert json.loads(json.dumps(description, allow_nan=False)) == description
    assert description["name"] == "he3"
    assert description["degree"] == 3
    assert description["information_exponent"]["value"] == 3
    assert description["generative_exponent"]["value"] == 1
    assert description["hermite_coefficients"] == pytest.approx([0, 0, 0, 1, 0, 0, 0, 0, 0], abs=1e-15)
    gates = {(row["rho"], row["b"]): row["value"] for row in description["gated_exponents"]}
    assert gates == {(1.0, -3.0): 1, (0.5, -9.0): 1, (0.3, -15.0): 1, (1.0, 0.0): 2}
    assert (description["e_1"]["value"], description["e_2"]["value"]) == (3, 2)


@pytest.mark.parametrize(
    ("rho", "b", "gates"),
    [(0.4, -7.0, [(0.4, -7.0)]), (0.4, None, [(0.4, -3.0), (0.4, -9.0), (0.4, -15.0)]), (None, 0.0, None)],
)
def test_the_gate_can_be_given_in_part(rho, b, gates):
    found = describe_link(make_link("he3"), rho, b)["gated_exponents"]
    pairs = [(row["rho"], row["b"]) for row in found]
    assert pairs == (gates or [(0.3, 0.0), (0.5, 0.0), (1.0, 0.0)])


def test_text_shows_numbers_and_words():
    text = format_description(describe_link(make_link("he3"), noise=0.25))
    lines = text.splitlines()
    assert lines[0] == "link      he3"
    assert "degree    3" in lines
    assert "  k = 3    1.000000000000" in text
    assert any(line.split()[:4] == ["information", "exponent", "ie", "3"] for line in lines)
    assert any(line.split()[:4] == ["generative", "exponent", "ge", "1"] for line in lines)
    assert "label noise +-0.25" in text
    assert "take b != 0" in text
    assert "-0.000000000000" not in text
    assert all(len(line) <= 110 and line == line.rstrip() for line in lines)


def test_text_of_a_link_that_is_no_polynomial():
    text = format_description(describe_link(make_link("relu")))
    assert "degree    not a polynomial" in text
    assert "kinks or jumps at 0" in text
    assert "k = 1    0.500000000000" in text
    assert "0.398942280401" in text
    assert "Note:" not in text


def test_a_weak_deciding_coefficient_is_pointed_out():
    description = describe_link(make_link("tanh(z)-0.605706*z"))
    assert description["information_exponent"]["value"] == 1
    (note,) = [note for note in description["notes"] if "rests on a coefficient" in note]
    assert "-2.96e-06" in note
    assert "information exponent 3" in note


def test_a_large_mean_does_not_make_a_coefficient_look_weak():
    description = describe_link(make_link("1e3+cos(z)"))
    assert description["information_exponent"]["deciding"] == pytest.approx(-0.9595, abs=1e-3)
    assert not any("rests on a coefficient" in note for note in description["notes"])


def test_undecided_results_say_so_in_words():
    text = format_description(describe_link(make_link("1e3+cos(z)")))
    assert "undecided: a lower coefficient is as small as its own error" in text
    text = " ".join(text.split())
    assert "subtract the mean of the link, declare its break points, or in Python pass generative_exponent" in text
    undecided = Exponent(None, (0.5,), (0.1,), (1.0,), 1e-10, True, 1, "information exponent", "its reason")
    decided = Exponent(1, (0.5,), (0.0,), (1.0,), 1e-10, False, 1, "generative exponent")
    (note,) = _notes(hermite_expansion("he1", 2), undecided, decided, [])
    assert "is undecided: its reason; " in note
    assert "in Python pass information_exponent a smaller tolerance" in note


def test_wrong_gates_are_refused():
    with pytest.raises(InputError, match="rho"):
        describe_link(make_link("he3"), rho=-1.0)
    with pytest.raises(InputError, match="noise"):
        describe_link(make_link("he3"), noise=-1.0)
