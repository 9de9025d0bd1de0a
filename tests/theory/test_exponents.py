"""Information exponents, before and after the gate, against the published table and closed forms."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from iclab.errors import InputError
from iclab.links import FunctionLink, HermiteSeries, gaussian_expectations, hermite_functions, make_link
from iclab.theory.expansion import hermite_expansion, polynomial_degree
from iclab.theory.exponents import decide, e_p, gated_exponent, gated_label, information_exponent


def test_gated_coefficient_agrees_with_scipy_quad():
    link, rho, b, tau = make_link("he3"), 0.5, -9.0, 0.2

    def gated(z):
        y = [(z**3 - 3 * z) / math.sqrt(6) + s * tau for s in (1, -1)]
        return sum(v / (1 + math.exp(-min(v / rho + b, 700.0))) if v / rho + b > -700 else 0.0 for v in y) / 2

    def expect(function):
        def integrand(z):
            return function(z) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

        return quad(integrand, -12, 12, limit=500, epsabs=1e-15, points=[3.0, 3.3])[0]

    norm = math.sqrt(expect(lambda z: gated(z) ** 2) - expect(gated) ** 2)
    found = gated_exponent(link, rho, b, tau)
    assert found.coefficients[0] == pytest.approx(expect(lambda z: gated(z) * z) / norm, rel=1e-9)
    assert found.coefficients[1] == pytest.approx(expect(lambda z: gated(z) * (z * z - 1) / 2**0.5) / norm, rel=1e-9)


@pytest.mark.parametrize(("rho", "b"), [(0.5, -800.0), (1e-3, -30.0), (1e-300, 5.0), (100.0, -30.0), (0.1, 800.0)])
def test_stiff_and_distant_gates_neither_overflow_nor_vanish(rho, b):
    found = gated_exponent(make_link("he2(z)+he3(z)"), rho, b)
    assert found.value in (1, 2)
    assert np.isfinite(found.coefficients).all()


def test_a_gate_that_only_rare_labels_open_is_decided_by_cancellation_and_not_by_the_norm():
    found = gated_exponent(make_link("he3"), 10.0, -60.0)
    assert found.coefficients[0] == pytest.approx(4.137e-14, rel=1e-3)
    assert found.coefficients[0] / found.scales[0] == pytest.approx(0.778, abs=1e-3)
    assert (found.value, found.undecided) == (1, False)


def test_a_far_open_gate_is_the_link_itself():
    function, z = gated_label(make_link("he3"), 1.0, 60.0), np.linspace(-3, 3, 7)
    ratio = function(z)[[0, 1, 5]] / make_link("he3")(z)[[0, 1, 5]]
    assert np.ptp(ratio) < 1e-12 * ratio[0]


@pytest.mark.parametrize(
    ("spec", "p", "power"),
    [
        ("he1", 1, 1), ("he1", 2, 2), ("he2", 2, 1), ("he2", 4, 2), ("he3", 1, 3), ("he3", 2, 2), ("he3", 3, 1),
        ("he4", 2, 2), ("he5", 1, 3), ("he2(z)+he3(z)", 1, 2), ("relu", 1, 1),
    ],
)  # fmt: skip
def test_least_power(spec, p, power):
    found = e_p(make_link(spec), p)
    assert (found.value, found.undecided) == (power, False)


def test_least_power_does_not_exist_for_a_parity_or_a_constant_power():
    assert e_p(make_link("he4"), 1).value is None
    found = e_p(make_link("sign"), 2)
    assert (found.value, found.undecided) == (None, False)


def test_second_power_of_he3_has_the_coefficient_of_the_product_formula():
    # he3^2 = sum_j j! C(3,j)^2 He_(6-2j) / 6: coefficient of h_2 (j = 2) is 2*9*sqrt(2)/6.
    found = e_p(make_link("he3"), 2)
    (fourth,), _ = gaussian_expectations(lambda z: make_link("he3")(z)[:, None] ** 4)
    assert fourth == pytest.approx(93, rel=1e-12)
    # In standard deviations: Var he3^2 = 93 - 1.
    assert found.coefficients[1] * 92**0.5 == pytest.approx(3 * 2**0.5, rel=1e-12)


def test_powers_that_leave_float64_say_so():
    with pytest.raises(InputError, match="lower max_power"):
        e_p(HermiteSeries([0] * 60 + [1]), 1, max_power=30)


def test_a_coefficient_near_the_tolerance_is_undecided():
    found = information_exponent(make_link("tanh(z - 1e-4)**2 - tanh(1e-4)**2"), tolerance=0)
    assert found.value == 1
    noisy = FunctionLink(lambda z: np.cos(z) + 1e-15 * np.sin(z), name="cosine with a sine of rounding size")
    found = information_exponent(noisy, tolerance=1e-16)
    assert found.undecided
    assert found.verdicts[0] == "undecided"
    assert found.value == 2
    assert information_exponent(noisy).verdicts[0] == "zero"


def test_a_function_without_any_sure_coefficient_is_undecided_with_no_value():
    found = decide("made up", [1e-10, 3e-11], [1e-11, 8e-11], [1.0, 1.0], 1e-10)
    assert (found.value, found.undecided) == (None, True)
    assert found.verdicts == ("undecided", "undecided")
    found = decide("made up", [1e-12, 0.5, 1e-10], [1e-13, 0.01, 1e-11], [1.0, 1.0, 1.0], 1e-10)
    assert (found.value, found.undecided, found.deciding) == (2, False, 0.5)


def test_none_up_to_the_degree_looked_at():
    found = information_exponent(HermiteSeries([0] * 20 + [1]))
    assert (found.value, found.undecided, found.max_degree) == (None, False, 12)
    assert information_exponent(HermiteSeries([0] * 20 + [1]), max_degree=20).value == 20


def test_zero_tolerance_takes_a_polynomial_at_its_word():
    link = HermiteSeries([0, 1e-13, 0, 1])
    assert information_exponent(link).value == 3
    assert information_exponent(link, tolerance=0).value == 1


@pytest.mark.parametrize("shift", [1e3, 1e6, -1e9])
def test_a_large_mean_hides_no_coefficient(shift):
    link = FunctionLink(lambda z: np.tanh(z) + shift, name="shifted")
    assert information_exponent(link, tolerance=1e-8).value == 1
    assert information_exponent(FunctionLink(lambda z: np.cos(z) + shift, name="shifted"), tolerance=1e-4).value == 2


@pytest.mark.parametrize("shift", [0.0, 1.0, 1e3])
def test_coefficients_are_in_standard_deviations_so_a_constant_changes_nothing(shift):
    # E cos(z) h_2(z) = -exp(-1/2)/sqrt 2, Var cos(z) = (1 + exp(-2))/2 - exp(-1).
    exact = -math.exp(-0.5) / 2**0.5 / ((1 + math.exp(-2)) / 2 - math.exp(-1)) ** 0.5
    found = information_exponent(FunctionLink(lambda z: np.cos(z) + shift, name="shifted"))
    assert (found.value, found.undecided) == (2, False)
    assert found.deciding == pytest.approx(exact, rel=1e-9)
    exact_series = information_exponent(HermiteSeries([shift, 0, 3.0, 4.0]))
    assert exact_series.deciding == pytest.approx(0.6, rel=1e-15)
    assert exact_series.scales[0] == 1.0


def test_many_jumps_that_are_not_declared():
    # E z sign(sin(kz)) = (4k/pi) sum over odd m of exp(-(mk)^2/2); for k = 40 it is about 1e-346.
    for k in (7, 11, 23, 40):
        found = information_exponent(FunctionLink(lambda z, k=k: np.sign(np.sin(k * z)), name="square wave"))
        exact = 4 * k / math.pi * math.exp(-(k**2) / 2)
        assert abs(found.coefficients[0] - exact) <= found.errors[0]
        assert found.errors[0] < 1e-11
        assert found.value == (1 if k == 7 else None)


def closed_forms():
    at_zero = hermite_functions(np.zeros(1), 101)[0]
    k = np.arange(101)
    factorial = np.array([math.lgamma(j + 1) for j in k])
    density = 1 / math.sqrt(2 * math.pi)
    exponential = np.exp(0.125 + k * math.log(0.5) - 0.5 * factorial)
    cosine = np.where(k % 2 == 0, (-1.0) ** (k // 2) * np.exp(-2 + k * math.log(2) - 0.5 * factorial), 0.0)
    relu = np.array([density, 0.5] + [density * at_zero[j - 2] / math.sqrt(j * (j - 1)) for j in k[2:]])
    sign = np.array([0.0] + [2 * density * at_zero[j - 1] / math.sqrt(j) for j in k[1:]])
    absolute = 2 * relu - (k == 1)
    return {"exp(z/2)": exponential, "cos(2*z)": cosine, "relu": relu, "sign": sign, "abs": absolute}


@pytest.mark.parametrize("spec", closed_forms())
def test_coefficients_up_to_degree_100_agree_with_closed_forms_within_their_errors(spec):
    exact, found = closed_forms()[spec], hermite_expansion(make_link(spec), 100)
    assert found.coefficients == pytest.approx(exact, abs=2e-14)
    assert (np.abs(found.coefficients - exact) <= found.errors + 1e-16).all()
    rest = 1 - (exact**2).sum() / found.second_moment
    assert found.remaining_mass == pytest.approx(rest, abs=1e-13)
    assert found.max_degree == 100


def test_remaining_mass_is_the_error_of_the_truncated_series():
    link = make_link("relu")
    found = hermite_expansion(link, 9)

    def squared_rest(z):
        return ((link(z) - hermite_functions(z, 9) @ found.coefficients) ** 2)[:, None]

    (rest,), _ = gaussian_expectations(squared_rest, link.breakpoints)
    assert found.remaining_mass * found.second_moment == pytest.approx(rest, rel=1e-10)


def test_polynomials_are_expanded_exactly():
    found = hermite_expansion(HermiteSeries([0.5, 0, 2.0, 1.0]), 2)
    assert found.coefficients.tolist() == [0.5, 0.0, 2.0]
    assert found.remaining_mass == pytest.approx(1 / 5.25, rel=1e-15)
    assert hermite_expansion(HermiteSeries([0, 1]), 100).coefficients.tolist() == [0.0, 1.0] + [0.0] * 99
    assert polynomial_degree(make_link("(z**3-3*z)/sqrt(6)")) == 3
    assert polynomial_degree(make_link("tanh")) is None


def test_links_can_be_given_as_names_coefficients_or_functions():
    assert information_exponent("he3").value == 3
    assert information_exponent([0, 0, 0, 1]).value == 3
    assert information_exponent(np.cos).value == 2
    assert gated_exponent("he3", 0.5, -9.0).value == 1
    assert e_p("he3", 2).value == 2
    assert hermite_expansion("relu", 1).coefficients[1] == pytest.approx(0.5)


def test_wrong_arguments_are_named():
    link = make_link("he3")
    for call in (
        lambda: hermite_expansion(link, -1),
        lambda: hermite_expansion(link, 201),
        lambda: information_exponent(link, max_degree=0),
        lambda: information_exponent(link, tolerance=-1),
        lambda: information_exponent(link, tolerance=float("nan")),
        lambda: e_p(link, 0),
        lambda: gated_exponent(link, 0.0, -9),
        lambda: gated_exponent(link, 0.5, float("nan")),
        lambda: gated_exponent(link, 0.5, -9, noise=-0.1),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert "\n" not in str(caught.value)
