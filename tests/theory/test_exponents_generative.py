"""The generative exponent from level sets, against closed forms, direct integration and the rule for polynomials."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from iclab.errors import InputError
from iclab.links import FunctionLink, HermiteSeries, make_link
from iclab.theory.generative import generative_exponent, label_map_strengths, level_set_integrals
from iclab.theory.monotone import monotone_nodes


def test_the_degree_two_part_of_z2exp_cancels_to_rounding():
    strengths, errors, resolved = label_map_strengths(make_link("z2exp"), 6)
    assert resolved
    assert (strengths[:3] < 1e-12).all()
    assert (errors < 1e-11).all()
    assert strengths[3] > 0.4


# The level sets of h(|z|) with h monotone are those of |z|: the label gives |z| and no more.
@pytest.mark.parametrize("spec", ["abs", "he2", "log(abs(z))", "exp(-z**2)", "sqrt(abs(z))", "1/(1+z**2)"])
def test_labels_equivalent_to_the_absolute_value(spec):
    strengths, _, _ = label_map_strengths(make_link(spec), 4, num_levels=2048)
    assert strengths == pytest.approx([0, 1, 0, 1], abs=5e-3)


@pytest.mark.parametrize("spec", ["he1", "exp(z)", "tanh", "z**3", "z + sign(z)"])
def test_invertible_labels_give_everything(spec):
    strengths, _, _ = label_map_strengths(make_link(spec), 4, num_levels=2048)
    assert strengths == pytest.approx([1, 1, 1, 1], abs=5e-3)


def test_two_valued_labels_have_a_closed_form():
    # 1{z > a}: e_k = (phi(a) h_{k-1}(a))^2 / (k p (1-p)).
    a = 1.0
    p = 0.5 * math.erfc(a / math.sqrt(2))
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    h = [1.0, a, (a * a - 1) / 2**0.5, (a**3 - 3 * a) / 6**0.5]
    exact = [abs(density * h[k - 1]) / math.sqrt(k * p * (1 - p)) for k in range(1, 5)]
    for spec in ("step(z-1)", "5-3*step(z-1)"):
        found = generative_exponent(make_link(spec), max_degree=4)
        assert found.coefficients == pytest.approx(exact, abs=1e-12)
        assert found.value == 1
    assert found.verdicts[2] == "zero"  # h_2(1) = 0


def test_atom_of_relu_against_its_closed_form():
    # E[z | relu(z)] is -2 phi(0) on the atom and z beyond it.
    exact = math.sqrt(0.5 * (2 / math.sqrt(2 * math.pi)) ** 2 + 0.5)
    strengths, _, _ = label_map_strengths(make_link("relu"), 1, num_levels=4096)
    assert strengths[0] == pytest.approx(exact, rel=1e-3)
    assert strengths[0] <= exact


def test_conditional_mean_of_cubic_labels_against_scipy():
    # e_1 of He_3 by integrating over the label: E[z|y] = sum_i z_i w_i / sum_i w_i, w_i = phi(z_i)/|g'(z_i)|.
    def integrand(y):
        roots = np.roots([1, 0, -3, -y])
        z = roots[np.abs(roots.imag) < 1e-9].real
        w = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) / np.abs(3 * z * z - 3)
        return (z * w).sum() ** 2 / w.sum()

    parts = [quad(integrand, low, high, limit=400)[0] for low, high in ((-2 + 1e-9, 2 - 1e-9), (2 + 1e-9, 500))]
    strengths, _, _ = label_map_strengths(make_link("he3"), 1, num_levels=4096)
    assert strengths[0] ** 2 == pytest.approx(parts[0] + 2 * parts[1], rel=2e-3)


def test_strengths_grow_with_the_number_of_levels():
    coarse, _, _ = label_map_strengths(make_link("he3"), 4, num_levels=16)
    fine, _, _ = label_map_strengths(make_link("he3"), 4, num_levels=1024)
    assert (fine > coarse).all()
    assert (fine <= 1).all()


def test_level_set_integrals_against_direct_integration():
    link = make_link("he4")
    nodes, _, _ = monotone_nodes(link)
    levels = np.array([-1.0, -0.3, 0.4, 2.0])
    cumulative, mass, errors = level_set_integrals(link, nodes, levels, 4)
    z = np.linspace(-9, 9, 1_800_001)
    weight = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    for j, level in enumerate(levels):
        inside = weight * (link(z) <= level)
        assert mass[j] == pytest.approx(inside.sum(), abs=2e-5)
        assert cumulative[j, 1] == pytest.approx((inside * (z * z - 1)).sum() / 2**0.5, abs=2e-5)
        assert abs(cumulative[j, 0]) <= errors[j, 0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=2, max_size=6))
def test_levels_agree_with_the_rule_for_polynomials(coefficients):
    assume(any(coefficients[1:]))
    link = HermiteSeries(coefficients)
    rule, levels = generative_exponent(link, method="rule"), generative_exponent(link, method="levels")
    assert not levels.undecided
    assert rule.value == levels.value == (1 if any(coefficients[1::2]) else 2)


def test_undeclared_kinks_and_jumps_are_found():
    def sawtooth(z):
        return np.abs(z) - (np.abs(z) > 1.3)

    assert generative_exponent(FunctionLink(sawtooth)).value == 2
    assert generative_exponent(FunctionLink(lambda z: sawtooth(z) + (z > 0.1))).value == 1


def test_flat_pieces_with_rounding_noise_are_one_atom():
    noisy = generative_exponent(make_link("sin(z)**2+cos(z)**2+relu(z)"))
    clean = generative_exponent(make_link("relu"))
    assert (noisy.value, noisy.undecided) == (1, False)
    assert noisy.coefficients == pytest.approx(clean.coefficients, rel=1e-2)


def test_what_cannot_be_resolved_is_undecided():
    fast = generative_exponent(make_link(lambda z: np.sin(2000 * z)), num_levels=16)
    assert (fast.value, fast.undecided) == (None, True)
    assert "level sets are not resolved" in fast.reason
    rare = generative_exponent(make_link("step(z-6)"))
    assert (rare.value, rare.undecided) == (None, True)


def test_wrong_arguments_are_named():
    with pytest.raises(InputError, match="is no polynomial"):
        generative_exponent(make_link("relu"), method="rule")
    with pytest.raises(InputError, match="'auto', 'rule' or 'levels'"):
        generative_exponent(make_link("relu"), method="exact")
    with pytest.raises(InputError, match="num_levels"):
        generative_exponent(make_link("relu"), num_levels=1)
