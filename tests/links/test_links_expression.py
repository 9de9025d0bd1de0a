"""The expression parser: agrees with plain arithmetic, finds kinks, and never runs or lets through anything else."""

import math
import string

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from iclab.errors import InputError
from iclab.links import make_link
from iclab.links.syntax import FUNCTIONS

HE = {1: lambda z: z, 2: lambda z: (z * z - 1) / math.sqrt(2), 3: lambda z: (z**3 - 3 * z) / math.sqrt(6)}


def leaf(text, function):
    return text, function, lambda reach: abs(function(reach))


leaves = st.one_of(
    st.just(leaf("z", lambda z: z)),
    st.just(leaf("pi", lambda z: math.pi)),
    st.just(leaf("e", lambda z: math.e)),
    st.floats(0.1, 3).map(lambda v: round(v, 3)).map(lambda v: leaf(repr(v), lambda z, v=v: v)),
    st.integers(1, 4).map(lambda v: leaf(str(v), lambda z, v=v: v)),
)


def combine(children):
    """Text, the same in Python arithmetic, and a bound of the terms' sizes (what rounding errors scale with)."""

    def binary(pair, symbol):
        (s, f, m), (t, g, n) = pair
        value, size = {
            "+": (lambda z: f(z) + g(z), lambda r: m(r) + n(r)),
            "-": (lambda z: f(z) - g(z), lambda r: m(r) + n(r)),
            "*": (lambda z: f(z) * g(z), lambda r: m(r) * n(r)),
        }[symbol]
        return f"({s}) {symbol} ({t})", value, size

    def call(child, name):
        s, f, m = child
        inner = {
            "sin": (math.sin, lambda r: 1 + m(r)), "cos": (math.cos, lambda r: 1 + m(r)),
            "tanh": (math.tanh, lambda r: 1 + m(r)), "atan": (math.atan, lambda r: 1 + m(r)),
            "abs": (abs, m), "relu": (lambda v: max(v, 0.0), m), "erf": (math.erf, lambda r: 1 + 2 * m(r)),
            "he2": (HE[2], lambda r: 1 + m(r) ** 2), "he3": (HE[3], lambda r: 3 * m(r) + m(r) ** 3),
        }[name]  # fmt: skip
        return f"{name}({s})", lambda z: inner[0](f(z)), inner[1]

    names = st.sampled_from(["sin", "cos", "tanh", "atan", "abs", "relu", "erf", "he2", "he3"])
    return st.one_of(
        st.builds(binary, st.tuples(children, children), st.sampled_from("+-*")),
        st.builds(call, children, names),
        children.map(lambda c: (f"-({c[0]})", lambda z: -c[1](z), c[2])),
        children.map(lambda c: (f"({c[0]})**2", lambda z: c[1](z) ** 2, lambda r: c[2](r) ** 2)),
        children.map(lambda c: (f"({c[0]})/2.5", lambda z: c[1](z) / 2.5, c[2])),
    )


@settings(max_examples=150, deadline=None)
@given(st.recursive(leaves, combine, max_leaves=6))
def test_expressions_agree_with_plain_arithmetic(case):
    text, function, size = case
    try:
        link = make_link(text)
    except InputError as error:
        assume("constant" not in str(error) and "degree" not in str(error))
        raise
    z = np.array([-2.0, -0.7, 0.0, 0.3, 1.9])
    exact = np.array([function(v) for v in z.tolist()])
    # Polynomials are rewritten in the Hermite basis, whose terms are of the size of the polynomial at |z| + degree.
    allowed = 1e-13 * (1 + size(8.0))
    assert np.abs(link(z) - exact).max() <= allowed
    assert np.abs(link(torch.as_tensor(z)).numpy() - exact).max() <= allowed


PYTHON = """( ) + - * / ** , ^ 1 2.5 1e9 1e400 0 _ . lambda : [ ] { } ' " __import__ eval exec open os if else for in
= := @ % // < == ~ not await yield \\ # j 0x True None z pi e"""
tokens = st.sampled_from([*FUNCTIONS, *PYTHON.split(), " ", "\n", "\t"])
texts = st.one_of(
    st.lists(tokens, max_size=14).map("".join), st.text(max_size=40), st.text(string.printable, max_size=40)
)


@settings(max_examples=400, deadline=None)
@given(texts)
def test_any_text_gives_a_link_or_one_line(text):
    try:
        link = make_link(text)
    except InputError as error:
        link, lines = None, str(error).splitlines()
    else:
        lines = [f"{link.mean} {link.variance}"]
    assert len(lines) == 1
    if link is not None:
        assert np.isfinite(link.mean)
        assert 0 < link.variance < np.inf


@pytest.mark.parametrize(
    "template",
    [
        "__import__('os').mkdir({path!r})",
        "open({path!r}, 'w')",
        "(lambda: open({path!r}, 'w'))()",
        "[open({path!r}, 'w') for _ in (1,)]",
        "z + (open({path!r}, 'w') and 0)",
        "sin(open({path!r}, 'w'))",
        "().__class__.__base__.__subclasses__()",
        "f'{{open({path!r}, \"w\")}}'",
        "z.__init__.__globals__",
        "(x := open({path!r}, 'w'))",
    ],
)
def test_nothing_is_ever_executed(template, tmp_path):
    target = tmp_path / "made"
    with pytest.raises(InputError):
        make_link(template.format(path=str(target)))
    assert not target.exists()


@pytest.mark.parametrize(
    ("text", "coefficients"),
    [
        ("(z**3 - 3*z)/sqrt(6)", [0, 0, 0, 1]),
        ("he3(z)+he4(z)", [0, 0, 0, 1, 1]),
        ("z**2", [1, 0, 2**0.5]),
        ("(z-1)**2", [2, -2, 2**0.5]),
        ("z*z*z - 3*z", [0, 0, 0, 6**0.5]),
        ("he2(z)*0 + z/4 - 2**-2", [-0.25, 0.25]),
        ("z**sqrt(4)*cos(0)", [1, 0, 2**0.5]),
    ],
)
def test_polynomials_have_exact_coefficients(text, coefficients):
    found = make_link(text).hermite_coefficients
    assert found is not None
    assert found == pytest.approx(coefficients, rel=1e-15, abs=0)


@pytest.mark.parametrize("text", ["z**3/z", "abs(z)**2", "z**-1*z**3", "2**z", "0*abs(z)+z", "z/(z-z+1)", "tanh(z)*z"])
def test_what_only_looks_like_a_polynomial_is_none(text):
    assert make_link(text).hermite_coefficients is None


def test_the_order_of_factors_does_not_matter():
    left, right = make_link("he8(z**8)*exp(-z**2)"), make_link("exp(-z**2)*he8(z**8)")
    assert left.variance == pytest.approx(right.variance, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("relu(z-1)", [1.0]),
        ("abs(z**2-2)", [-(2**0.5), 2**0.5]),
        ("sign(z)*step(z+0.25)", [-0.25, 0.0]),
        ("relu(tanh(z)-0.5)", [math.atanh(0.5)]),
        ("tanh(z)", []),
        ("sign(1/z)", [0.0]),
    ],
)
def test_kinks_are_found(text, places):
    assert make_link(text).breakpoints == pytest.approx(places, abs=1e-13)


def test_a_function_that_is_zero_on_an_interval_declares_its_ends_only():
    places = make_link("relu(relu(z)*tanh(z))").breakpoints
    assert len(places) < 10
    assert 0.0 in places


def test_declared_breakpoints_are_kept():
    assert make_link("atan(1/z)", breakpoints=[0.0]).breakpoints == (0.0,)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("standardised(z)+sin(z)", r"has standardised\(\.\.\.\) as a part; expected it around the whole link"),
        ("z/0", "divides by zero; expected a divisor that is not the constant 0"),
        ("sin(z)/0", "divides by zero"),
        ("0**-1 + z", "divides by zero"),
        ("2e200*2e200*z", "overflows; expected finite coefficients"),
        ("abs(z)**100", "integrable though they may be"),
        ("1/(z-0.3)", "(did not converge near|is not finite at) z = 0.3"),
        ("sin(z**40)", "it oscillates too fast, or its bounds are too wide"),
        ("exp(z**2)", "grows too fast"),
        ("standardised(" * 3000 + "z" + ")" * 3000, "a string of 42001 characters"),
    ],
)
def test_messages_name_the_reason(spec: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make_link(spec, standardise=True)


def test_standardised_around_a_link_with_parentheses() -> None:
    link = make_link("standardised((z + 1)*he2(z))")
    assert (link.mean, link.variance) == pytest.approx((0, 1))
