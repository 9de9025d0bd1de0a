"""The published table of exponents by every route that the package has: direct, after the gate, from level sets."""

import numpy as np
import pytest

from iclab.links import FunctionLink, gaussian_expectations, make_link
from iclab.theory.exponents import gated_exponent, information_exponent
from iclab.theory.generative import generative_exponent


def tanh_without_degree_one():
    (c,), _ = gaussian_expectations(lambda z: (z * np.tanh(z))[:, None])
    assert c == pytest.approx(0.605706, abs=5e-7)
    return FunctionLink(lambda z: np.tanh(z) - float(c) * z, name="tanh minus its degree 1")


# link, information exponent, generative exponent: the table of arXiv 2510.12026, then links whose exponents follow
# from parity, from a non-zero first coefficient, or from the cancellation that they are built on.
TABLE = [
    ([0, 1], 1, 1),
    ([0, 0, 1], 2, 2),
    ([0, 0, 0, 1], 3, 1),
    ([0, 0, 0, 0, 1], 4, 2),
    ([0, 0, 0, 0, 0, 1], 5, 1),
    ("he3(z)+he4(z)", 3, 1),
    ("he2(z)+he4(z)", 2, 2),
    ("z**2*exp(-z**2)", 4, 4),
    ("he6", 6, 2),
    ("he2(z)+he3(z)", 2, 1),
    ("relu", 1, 1),
    ("abs", 2, 2),
    ("sign", 1, 1),
    ("2*exp(-3/2)*sin(z)-sin(2*z)", 3, 1),
    (tanh_without_degree_one(), 3, 1),
]
each_link = pytest.mark.parametrize(("spec", "ie", "ge"), TABLE, ids=[str(row[0]) for row in TABLE])


@each_link
def test_information_exponent(spec, ie, ge):
    found = information_exponent(make_link(spec))
    assert (found.value, found.undecided) == (ie, False)
    assert found.verdicts[:ie] == ("zero",) * (ie - 1) + ("nonzero",)


@each_link
@pytest.mark.parametrize("method", ["auto", "levels"])
def test_generative_exponent(spec, ie, ge, method):
    found = generative_exponent(make_link(spec), method=method)
    assert (found.value, found.undecided) == (ge, False)
    assert found.verdicts[:ge] == ("zero",) * (ge - 1) + ("nonzero",)


@each_link
@pytest.mark.parametrize(("rho", "b"), [(0.5, -9.0), (0.3, -15.0), (1.0, -3.0), (0.02, -30.0)])
def test_the_gate_lowers_the_information_exponent_to_the_generative_one(spec, ie, ge, rho, b):
    for noise in (0.0, 0.1):
        found = gated_exponent(make_link(spec), rho, b, noise)
        assert (found.value, found.undecided) == (ge, False)


@pytest.mark.parametrize("spec", ["he3", "he5", "2*exp(-3/2)*sin(z)-sin(2*z)", tanh_without_degree_one()])
def test_odd_links_have_no_degree_one_signal_at_zero_offset(spec):
    found = gated_exponent(make_link(spec), 0.7, 0.0)
    assert found.verdicts[0] == "zero"
    assert found.value == 2
    assert gated_exponent(make_link(spec), 0.7, -0.5).value == 1


def test_a_truncated_constant_gives_exponent_one_with_a_tiny_coefficient():
    found = information_exponent(make_link("tanh(z) - 0.605706*z"))
    assert (found.value, found.undecided) == (1, False)
    assert found.deciding == pytest.approx(-2.9618e-6, rel=1e-3)
