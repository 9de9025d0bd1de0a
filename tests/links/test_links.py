"""Links: Hermite series, named links, callables, standardisation, and what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import hermite_e

from iclab.errors import InputError
from iclab.links import (
    LINK_NAMES,
    FunctionLink,
    HermiteSeries,
    gaussian_expectations,
    hermite_functions,
    make_link,
)
from iclab.prompts import SingleIndex, Stream
from iclab.theory import information_exponent

coefficient_lists = st.lists(st.floats(-3, 3, allow_subnormal=False), min_size=2, max_size=12).filter(
    lambda c: max(abs(v) for v in c[1:]) > 1e-3
)


@settings(max_examples=60, deadline=None)
@given(coefficient_lists)
def test_series_agree_with_numpy_in_numpy_and_torch(coefficients):
    z = np.linspace(-4, 4, 33)
    weights = [c / math.sqrt(math.factorial(k)) for k, c in enumerate(coefficients)]
    exact = hermite_e.hermeval(z, weights)
    # |He_k(z)| <= |He_k(i |z|)|: what rounding errors scale with.
    size = sum(abs(w) * abs(hermite_e.hermeval(4j, [0] * k + [1])) for k, w in enumerate(weights))
    link = HermiteSeries(coefficients)
    assert np.abs(link(z) - exact).max() <= 1e-13 * size
    assert np.abs(link(torch.as_tensor(z)).numpy() - exact).max() <= 1e-13 * size
    single = link(torch.as_tensor(z, dtype=torch.float32))
    assert single.dtype == torch.float32
    assert np.abs(single.numpy() - exact).max() <= 1e-4 * size


@settings(max_examples=30, deadline=None)
@given(coefficient_lists)
def test_moments_of_series_agree_with_quadrature(coefficients):
    link = HermiteSeries(coefficients)
    (mean, square), _ = gaussian_expectations(lambda z: np.stack([link(z), (link(z) - link.mean) ** 2], 1))
    assert link.mean == pytest.approx(mean, abs=1e-12)
    assert link.variance == pytest.approx(square, rel=1e-11)


def test_hermite_functions_are_orthonormal_up_to_degree_60():
    gram, _ = gaussian_expectations(
        lambda z: (hermite_functions(z, 60)[:, :, None] * hermite_functions(z, 60)[:, None, ::15]).reshape(len(z), -1)
    )
    assert gram.reshape(61, -1) == pytest.approx(np.eye(61)[:, ::15], abs=1e-12)


@pytest.mark.parametrize("name", LINK_NAMES)
def test_named_links_read_back_and_standardise(name):
    link = make_link(name)
    assert link.name == name
    standard = make_link(name, standardise=True)
    (mean, square), _ = gaussian_expectations(
        lambda z: np.stack([standard(z), standard(z) ** 2], 1), standard.breakpoints
    )
    assert mean == pytest.approx(0.0, abs=1e-13)
    assert square == pytest.approx(1.0, rel=1e-12)
    again, z = make_link(standard.name), np.linspace(-2, 2, 9)
    assert again(z) == pytest.approx(standard(z), rel=1e-14, abs=1e-15)
    assert make_link(standard, standardise=True) is standard


@pytest.mark.parametrize(
    "spec", ["he2(z)+3*he4(z)-1", "100+tanh(z)", "1e6+cos(z)", [2.0, 0.5, -0.25], "relu", "exp(z)"]
)
def test_standardised_links_have_mean_zero_and_variance_one(spec):
    link = make_link(spec).standardised()
    (mean, square), _ = gaussian_expectations(lambda z: np.stack([link(z), link(z) ** 2], 1), link.breakpoints)
    assert mean == pytest.approx(0.0, abs=1e-9)
    assert square == pytest.approx(1.0, rel=1e-9)


def test_variance_survives_a_large_mean():
    small, large = make_link("tanh(z)"), make_link("1e6+tanh(z)")
    assert large.variance == pytest.approx(small.variance, rel=1e-9)
    assert large.mean == pytest.approx(1e6, rel=1e-15)


def test_names_of_series_read_back():
    link = HermiteSeries([0, 0.1, -2.5, 1e-7])
    assert make_link(link.name).hermite_coefficients == pytest.approx(link.hermite_coefficients, abs=0)
    assert make_link("he3").hermite_coefficients == pytest.approx([0, 0, 0, 1], abs=1e-16)


def test_torch_style_callables_run_in_torch_and_carry_gradients():
    link = make_link(lambda z: torch.tanh(z) * 2)
    z = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    link(z).sum().backward()
    assert z.grad is not None
    assert z.grad.numpy() == pytest.approx(2 / np.cosh(z.detach().numpy()) ** 2)
    assert link(np.array([0.5]))[0] == pytest.approx(2 * math.tanh(0.5))


def test_modules_with_parameters_are_links():
    module = torch.nn.Sequential(torch.nn.Unflatten(0, (-1, 1)), torch.nn.Linear(1, 4), torch.nn.Tanh()).double()
    head = torch.linspace(-1, 1, 4, dtype=torch.float64)
    link = FunctionLink(lambda z: module(z) @ head, name="network")
    assert link(np.zeros(3)).shape == (3,)


def test_numpy_style_callables_take_tensors():
    link = make_link(lambda z: np.where(z > 0, z, 0.1 * z), breakpoints=[0.0])
    value = link(torch.tensor([-1.0, 2.0], dtype=torch.float32))
    assert value.dtype == torch.float32
    assert value.tolist() == pytest.approx([-0.1, 2.0])
    assert link.breakpoints == (0.0,)


def test_boolean_callables_become_numbers():
    for function in (lambda z: z > 0.5, lambda z: np.greater(np.asarray(z), 0.5)):
        link = make_link(function)
        assert link.mean == pytest.approx(0.5 * math.erfc(0.5 / math.sqrt(2)), abs=1e-12)
        assert link(torch.tensor([0.0, 1.0], dtype=torch.float64)).tolist() == [0.0, 1.0]


BAD = {
    "constant": "3+0*z",
    "constant to rounding": "sin(z)**2+cos(z)**2",
    "pole": "1/z",
    "no real value": "log(z)",
    "fractional power": "z**0.5",
    "not square-integrable": "exp(z**2/4)",
    "not a number": float("nan"),
    "nan coefficient": [0.0, float("nan")],
    "no coefficients": [],
    "words for coefficients": ["a", "b"],
    "complex coefficients": [0, 1j],
    "ragged coefficients": [[1], [2, 3]],
    "too many coefficients": [1.0] * 62,
    "all coefficients zero": [0.0, 0.0],
    "bad hermite list": "hermite:1,x",
    "huge power": "z**1000000000",
    "tower of powers": "9**9**9",
    "nested polynomials": "he8(" * 30 + "z" + ")" * 30,
    "division by zero": "z/0",
    "deep nesting": "(" * 1000,
    "deep nesting that closes": "(" * 240 + "z" + ")" * 240,
    "many minus signs": "-" * 499 + "1",
    "very long": "z+" * 5000 + "z",
    "empty": "  ",
    "unknown name": "rleu",
    "unknown function": "foo(z)",
    "caret": "z^3",
    "two arguments": "sin(z, z)",
    "keyword": "sin(x=z)",
    "attribute": "z.real",
    "subscript": "z[0]",
    "comparison": "z > 0",
    "string": "'z'",
    "two lines": "z\nz",
    "too large": "1e160*z",
    "too small": "1e-170*tanh(z)",
    "none": None,
    "number": 5,
    "constant callable": lambda z: 1.0,
    "complex callable": lambda z: z * 1j,
    "callable of wrong shape": lambda z: np.zeros((len(z), 2)),
}


@pytest.mark.parametrize("spec", BAD.values(), ids=BAD.keys())
def test_bad_links_are_refused_in_one_line(spec):
    with pytest.raises(InputError) as caught:
        make_link(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("breakpoints", [["a"], [float("nan")], [float("inf")], [None]])
def test_bad_breakpoints_are_refused(breakpoints):
    with pytest.raises(InputError, match="breakpoints"):
        make_link(np.tanh, breakpoints=breakpoints)


def in_place_numpy(z):
    z[z < 0] = 0
    return z


def in_place_clamp(z):
    return z.clamp_(min=0)


def in_place_ufunc(z):
    return np.maximum(z, 0, out=z)


@pytest.mark.parametrize("function", [in_place_numpy, in_place_clamp, in_place_ufunc])
def test_callables_may_write_in_place(function):
    link, relu = make_link(function), make_link("relu")
    assert (link.mean, link.variance) == pytest.approx((relu.mean, relu.variance), rel=1e-12)
    z = np.linspace(-2, 2, 9)
    kept = z.copy()
    assert link(z) == pytest.approx(np.maximum(kept, 0))
    assert np.array_equal(z, kept)
    tensor = torch.from_numpy(kept.copy())
    assert link(tensor).tolist() == pytest.approx(np.maximum(kept, 0))
    assert np.array_equal(tensor.numpy(), kept)
    assert information_exponent(link).coefficients == pytest.approx(information_exponent(relu).coefficients, abs=1e-12)
    # Drawn labels come from the index, which nothing may change.
    one, two = (SingleIndex(3, 2, g).sample(Stream(0), 8, 5, 1, dtype=torch.float64) for g in (link, relu))
    assert torch.equal(one.inputs, two.inputs)
    torch.testing.assert_close(one.labels, two.labels, rtol=1e-12, atol=1e-12)


FAILING = {
    "branch on a number": lambda z: 1.0 if z > 0 else 0.0,
    "function of math": math.sin,
    "module": torch.nn.Linear(1, 1),
    "raises": lambda z: {}["key"],
    "divides by zero": lambda z: z * (1 / int(0 * z.sum())),
    "asserts": lambda z: [][0] if isinstance(z, float) else _never(),
    "no argument": lambda: 0.0,
    "unknown name": lambda z: unknown_name(z),  # type: ignore[name-defined]  # noqa: F821
}


def _never() -> float:
    raise AssertionError


@pytest.mark.parametrize("function", FAILING.values(), ids=FAILING.keys())
def test_callables_that_fail_on_arrays_are_told_how_to_be_written(function):
    with pytest.raises(InputError) as caught:
        make_link(function)
    text = str(caught.value)
    assert "numpy.vectorize" in text
    assert "elementwise" in text
    assert "\n" not in text
    assert len(text) < 500


@pytest.mark.parametrize("function", [lambda z: 1.0 if z > 0 else 0.0, math.sin])
def test_what_the_message_advises_works(function):
    link = make_link(np.vectorize(function, otypes=[float]), breakpoints=[0.0])
    assert link(np.array([-1.0, 2.0])).tolist() == [function(-1.0), function(2.0)]


def test_a_callable_that_turns_bad_later_is_named_too():
    seen = []

    def sometimes(z):
        seen.append(1)
        if len(z) == 7:
            raise LookupError("a table ends here")
        return np.tanh(np.asarray(z))

    link = make_link(sometimes)
    with pytest.raises(InputError, match=r"fails on an array of shape .* a table ends here"):
        link(np.zeros(7))


@pytest.mark.parametrize("spec", ["tanh", "relu", "he3", [0.0, 1.0], "standardised(tanh)", np.tanh, torch.tanh])
@pytest.mark.parametrize("number", [0.5, 1, np.float32(0.5), np.float64(-0.25), np.int64(2)])
def test_links_of_a_number_are_numbers(spec, number):
    link = make_link(spec)
    value = link(number)
    assert type(value) is float
    assert value == pytest.approx(link(np.array([float(number)]))[0], rel=1e-15)


def test_callables_computed_in_single_precision_say_so():
    for function in (
        lambda z: np.tanh(np.asarray(z, dtype=np.float32)),
        lambda z: torch.tanh(z.float()),
        lambda z: torch.tanh(z.half()),
    ):
        with pytest.raises(InputError, match=r"it returns float(32|16) for float64 input.*compute in the dtype"):
            make_link(function)
    # Values that single precision holds exactly do no harm.
    step = make_link(lambda z: torch.where(z > 0, 1.0, -1.0), breakpoints=[0.0])
    assert (step.mean, step.variance) == pytest.approx((0.0, 1.0), abs=1e-14)


@pytest.mark.parametrize("spec", ["exp(0.24*z**2)", "exp(z**2/4)"])
def test_growth_beyond_float64_is_described_truly(spec):
    """The first is square-integrable, the second is not; at the end of float64 they look alike."""
    with pytest.raises(InputError, match=r"not negligible at \|z\| = 37, beyond which float64 cannot go"):
        make_link(spec)


def test_imaginary_parts_are_never_dropped():
    with pytest.raises(InputError, match="Hermite coefficients"):
        make_link(np.array([0.0, 1j]))


def test_a_link_that_sums_its_argument_is_told_from_a_constant():
    for function in (lambda z: z.sum(), lambda z: float(z.mean()), lambda z: np.max(z)):
        with pytest.raises(InputError, match="expected real values of the same shape"):
            make_link(function)
    with pytest.raises(InputError, match=r"is constant \(2.5\)"):
        make_link(lambda z: 2.5)
