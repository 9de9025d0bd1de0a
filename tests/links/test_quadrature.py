"""Gaussian quadrature against closed forms and scipy.integrate.quad, smooth, kinked, jumping and stiff."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, ndtr

from iclab.errors import InputError
from iclab.links import gaussian_expectations, gaussian_integrals, switching_points


def expectation(function, breakpoints=()):
    values, errors = gaussian_expectations(lambda z: function(z)[:, None], breakpoints)
    return float(values[0]), float(errors[0])


def density(z):
    return math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


CLOSED_FORMS = [
    (lambda z: z**2, (), 1.0),
    (lambda z: z**20, (), 654729075.0),
    (lambda z: np.exp(3 * z), (), math.exp(4.5)),
    (lambda z: np.exp(12 * z), (), math.exp(72.0)),
    (lambda z: np.cos(7 * z), (), math.exp(-24.5)),
    (np.abs, (0.0,), math.sqrt(2 / math.pi)),
    (np.abs, (), math.sqrt(2 / math.pi)),
    (lambda z: (z > 1.5) * 1.0, (1.5,), 1 - ndtr(1.5)),
    (lambda z: (z > 1.5) * 1.0, (), 1 - ndtr(1.5)),
    (lambda z: (z > 8) * 1.0, (8.0,), float(ndtr(-8.0))),
    (lambda z: np.log(np.abs(z)), (0.0,), -0.5 * (np.euler_gamma + math.log(2))),
    (lambda z: np.abs(z) ** -0.25, (0.0,), 2**-0.125 * math.gamma(0.375) / math.sqrt(math.pi)),
    (lambda z: np.exp(0.45 * z * z), (), 0.1**-0.5),
    (lambda z: z * ndtr(4 * z), (), 4 / math.sqrt(17) / math.sqrt(2 * math.pi)),
]


@pytest.mark.parametrize(("function", "breakpoints", "exact"), CLOSED_FORMS)
def test_closed_forms_are_met_within_the_error_estimate(function, breakpoints, exact):
    value, error = expectation(function, breakpoints)
    assert abs(value - exact) <= error + 2e-16
    assert value == pytest.approx(exact, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("rho", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("b", [0.0, -9.0])
def test_stiff_gates_agree_with_quad_split_at_the_gate(rho, b):
    # The gate opens where z^3 - 3z = -b rho sqrt(6); quad is told, the adaptive rule is not.
    roots = np.roots([1, 0, -3, b * rho * math.sqrt(6)])
    opening = sorted(float(r.real) for r in roots if abs(r.imag) < 1e-12)

    def label(z):
        return (z**3 - 3 * z) / math.sqrt(6)

    def integrand(z):
        return z * label(z) * expit(label(z) / rho + b)

    cuts = [c for place in opening for c in (place - 20 * rho, place, place + 20 * rho) if -12 < c < 12]
    edges = sorted([-12.0, -3.0, 0.0, 3.0, 12.0, *cuts])
    exact = sum(
        quad(lambda z: integrand(z) * density(z), a, c, epsabs=1e-15, epsrel=1e-13, limit=200)[0]
        for a, c in itertools.pairwise(edges)
    )
    value, error = expectation(integrand)
    assert value == pytest.approx(exact, abs=2e-13)
    assert error < 1e-12


def test_a_step_gate_has_the_closed_form_of_truncated_moments():
    # E[z 1{z > c}] = phi(c); a sigmoid of width 1e-9 is a step to 1e-9.
    value, _ = expectation(lambda z: z * expit((z - 0.7) / 1e-9))
    assert value == pytest.approx(density(0.7), abs=1e-9)


def test_vector_integrands_keep_their_columns_apart():
    values, errors = gaussian_expectations(lambda z: np.stack([z**2, 1e-12 * z**4, 1e12 * np.abs(z)], 1), [0.0])
    assert values == pytest.approx([1.0, 3e-12, 1e12 * math.sqrt(2 / math.pi)], rel=1e-13)
    assert (errors < 1e-12 * np.abs(values)).all()


def test_the_size_before_cancellation_is_the_absolute_moment():
    (value, _), (error, _), (size, unit) = gaussian_integrals(lambda z: np.stack([z**3, 0 * z + 1], 1), [0.0])
    assert abs(value) <= error
    assert size == pytest.approx(2 * math.sqrt(2 / math.pi), rel=1e-12)
    assert unit == pytest.approx(1.0, rel=1e-13)


def test_noise_below_the_floor_does_not_stop_the_integral():
    def rough(z):
        return ((np.sin(z) ** 2 + np.cos(z) ** 2) - 1.0)[:, None]

    with pytest.raises(InputError, match="did not converge"):
        gaussian_integrals(rough)
    (value,), (error,), _ = gaussian_integrals(rough, floor=1e-15)
    assert abs(value) <= error < 1e-12


def test_a_jump_between_an_edge_and_the_first_node_is_found():
    # The first panels end at the integers, and a rule of 20 nodes starts 0.0034 inside, its halves 0.0017.
    for place in (1.0005, 0.9995, -2.0011, 3.0001):
        value, error = expectation(lambda z, place=place: (z > place) * 1.0)
        exact = 1 - ndtr(place)
        assert abs(value - exact) <= error + 2e-16
        assert error < 1e-12


def test_a_difference_between_two_sets_of_nodes_that_remains_counts_as_error():
    # A function that changes from call to call stands for one that no set of nodes settles.
    calls = itertools.count()

    def restless(z):
        return (1 + 1e-8 * (next(calls) % 7) * (np.abs(z) < 0.5))[:, None] * np.ones((1, 1))

    values, errors = gaussian_expectations(restless, [-0.5, 0.5], tolerance=1e-6)
    assert abs(values[0] - 1) <= errors[0]
    assert 1e-10 < errors[0] < 1e-5


def test_a_declared_bump_is_seen_and_an_undeclared_one_may_not_be():
    """What the documentation says of features narrower than the distance of nodes."""

    def bump(z):
        return np.exp(-(((z - 0.31) / 1e-5) ** 2))

    exact = 1e-5 * math.sqrt(math.pi) * density(0.31)
    declared, _ = expectation(bump, [0.31 - 1e-4, 0.31, 0.31 + 1e-4])
    assert declared == pytest.approx(exact, rel=1e-9)
    undeclared, _ = expectation(bump)
    assert undeclared == pytest.approx(0.0, abs=1e-12)


def test_integrands_may_write_in_place():
    def clipped(z):
        z[z < 0] = 0
        return z

    assert expectation(clipped)[0] == pytest.approx(density(0), rel=1e-12)


@pytest.mark.parametrize("power", [0.24, 0.25, 0.3])
def test_growth_at_the_border_of_integrability_is_described_truly(power):
    with pytest.raises(InputError, match=r"is not negligible at \|z\| = 37, beyond which float64 cannot go"):
        expectation(lambda z: np.exp(2 * power * z * z))


@pytest.mark.parametrize(
    "function",
    [
        lambda z: np.exp(z * z / 2),
        lambda z: np.exp(z**4),
        lambda z: 1 / z,
        lambda z: 1 / np.abs(z - 0.3),
        lambda z: np.where(z > 1, np.nan, z),
        np.log,
        lambda z: np.full_like(z, np.inf),
    ],
)
def test_what_is_not_integrable_is_refused_in_one_line(function):
    with pytest.raises(InputError) as caught:
        expectation(function)
    assert "\n" not in str(caught.value)


def test_switching_points_are_found_to_a_rounding_unit():
    left, right = switching_points(lambda z: z * z <= 2.0, np.array([0.0, -3.0]), np.array([5.0, 0.0]))
    assert left == pytest.approx([2**0.5, -(2**0.5)], rel=1e-15)
    assert (right - left <= 4.5e-16).all()
    with np.errstate(divide="ignore"):
        left, right = switching_points(lambda z: 1 / z > 0, np.array([-1.0]), np.array([2.0]))
    assert left[0] <= 0.0 <= right[0]
    assert right[0] - left[0] < 1e-15
