"""Exact moments of the state against the definition integrated over all tokens, closed forms and limits."""

import itertools
import time
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, log_expit

from iclab.errors import InputError
from iclab.theory import GateMoments


def brute_force(link, noise: float, gate: str, rho: float, b: float, count: int, retention: float = 1.0):
    """``E S`` and ``E S S'`` on ``1, z, h_2(z)``, and ``E S_w^2`` of an orthogonal coordinate.

    A trapezoidal rule over all N tokens at once: no independence, no geometric sum, only the definition of ``S``.
    """
    nodes = np.linspace(-8, 8, {1: 641, 2: 129, 3: 65}[count])
    mass = np.exp(-nodes * nodes / 2)
    mass /= mass.sum()
    mean, second, orthogonal = np.zeros(3), np.zeros((3, 3)), 0.0
    z = np.stack(np.meshgrid(*[nodes] * count, indexing="ij")).reshape(count, -1)
    weight = np.prod(np.stack(np.meshgrid(*[mass] * count, indexing="ij")).reshape(count, -1), 0)
    psi = np.stack([np.ones_like(z), z, (z * z - 1) / np.sqrt(2)])
    signs = list(itertools.product([-1.0, 1.0] if noise else [0.0], repeat=count))
    for sign in signs:
        y = link(z) + noise * np.array(sign)[:, None]
        u = y / rho + b
        g = np.ones_like(y)
        for j in range(count):
            if gate in ("mamba", "no_decay"):
                g[j] = expit(u[j]) / expit(b)
            if gate == "exp":
                g[j] = np.exp(y[j] / rho)
            for k in range(j + 1, count):
                g[j] *= {"mamba": 1 - expit(u[k]), "retention": retention}.get(gate, 1.0)
            if gate == "mamba":
                g[j] *= 1 - expit(b)
        s = (g * y * psi).sum(1) / count
        mean += s @ weight / len(signs)
        second += (s * weight) @ s.T / len(signs)
        orthogonal += ((g * y) ** 2).sum(0) @ weight / count**2 / len(signs)
    return mean, second, orthogonal


SMOOTH = {"sin": np.sin, "tanh": np.tanh, "he2": lambda z: (z * z - 1) / np.sqrt(2)}


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("noise", [0.0, 0.4])
@pytest.mark.parametrize(
    ("link", "gate", "rho", "b"),
    [
        ("sin", "mamba", 0.8, -1.0),
        ("tanh", "mamba", 1.5, 0.5),
        ("he2", "mamba", 2.0, -3.0),
        ("tanh", "no_decay", 1.0, -4.0),
        ("sin", "exp", 1.0, 0.0),
        ("he2", "retention", 1.0, 0.0),
        ("sin", "linear", 1.0, 0.0),
    ],
)
def test_a_few_tokens_integrated_one_by_one(link, gate, rho, b, noise, count):
    exact = GateMoments(link, noise, rho, b, count, gate=gate, retention=0.7)
    mean, second, orthogonal = brute_force(SMOOTH[link], noise, gate, rho, b, count, retention=0.7)
    tolerance = 1e-9 * (1 + np.abs(second).max())
    np.testing.assert_allclose(exact.mean, mean, rtol=1e-9, atol=tolerance)
    np.testing.assert_allclose(exact.second_moment, second, rtol=1e-9, atol=tolerance)
    np.testing.assert_allclose(exact.covariance, second - np.outer(mean, mean), rtol=1e-9, atol=2 * tolerance)
    assert exact.orthogonal_variance == pytest.approx(orthogonal, rel=1e-9)
    assert exact.orthogonal_covariance[0, 0] == pytest.approx(orthogonal, rel=1e-9)


@pytest.mark.parametrize("count", [1, 10, 1000, 10**9])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_linear_attention_on_he3_in_closed_form(count, noise):
    """``z h_3 = 2 h_4 + sqrt 3 h_2`` gives ``E[y^2 z^2] = 7 + tau^2``; the mean vanishes on degrees 0 to 2."""
    exact = GateMoments("he3", noise, num_examples=count, gate="linear")
    np.testing.assert_allclose(exact.mean, 0, atol=1e-12)
    assert exact.second_moment[1, 1] == pytest.approx((7 + noise**2) / count, rel=1e-10)
    assert exact.second_moment[0, 0] == pytest.approx((1 + noise**2) / count, rel=1e-10)
    assert exact.orthogonal_covariance[0, 0] == pytest.approx((1 + noise**2) / count, rel=1e-10)
    assert exact.orthogonal_covariance[1, 1] == pytest.approx((7 + noise**2) / count, rel=1e-10)
    assert exact.orthogonal_covariance[0, 1] == pytest.approx(0, abs=1e-10)
    assert exact.block_energy(5)[1] == pytest.approx((7 + noise**2 + 4 * (1 + noise**2)) / count, rel=1e-10)
    assert exact.alignment(5) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("count", [1, 7, 10**6])
def test_linear_attention_on_he2_in_closed_form(count):
    """``E h_2^4 = 15`` and ``E h_2^2 z^2 = 5``: one direct simulation-free check of every degree-2 term."""
    exact = GateMoments("he2", num_examples=count, gate="linear")
    np.testing.assert_allclose(exact.mean, [0, 0, 1], atol=1e-12)
    assert exact.second_moment[2, 2] == pytest.approx(1 + 14 / count, rel=1e-10)
    assert exact.orthogonal_covariance[1, 1] == pytest.approx(5 / count, rel=1e-10)
    assert exact.orthogonal_variance == pytest.approx(1 / count, rel=1e-10)
    r = 4
    energy = 1 + 14 / count + (r - 1) * 5 / count + (r - 1) * r / 2 / count
    assert exact.block_energy(r)[2] == pytest.approx(energy, rel=1e-10)
    assert exact.alignment(r, degree=2) == pytest.approx(energy**-0.5, rel=1e-10)


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999999])
@pytest.mark.parametrize("count", [1, 2, 50, 10**7])
def test_retention_on_a_linear_link_in_closed_form(keep, count):
    exact = GateMoments("he1", 0.2, num_examples=count, gate="retention", retention=keep)
    log_keep = np.log(keep)
    total = -np.expm1(count * log_keep) / (1 - keep)
    squares = -np.expm1(2 * count * log_keep) / ((1 - keep) * (1 + keep))
    assert exact.mean[1] == pytest.approx(total / count, rel=1e-9)
    # Independent terms: the variance of the projection is that of y z = z^2 + zeta z, 2 + tau^2.
    assert exact.covariance[1, 1] == pytest.approx(2.04 * squares / count**2, rel=1e-7)
    assert exact.orthogonal_covariance[0, 0] == pytest.approx(1.04 * squares / count**2, rel=1e-9)


@pytest.mark.parametrize("count", [1, 13, 10**8])
def test_special_cases_coincide(count):
    def moments(**settings):
        m = GateMoments("sin", 0.1, num_examples=count, **settings)
        return np.concatenate([m.mean, m.second_moment.ravel(), m.orthogonal_covariance.ravel(), m.block_energy(3)])

    linear = moments(gate="linear")
    np.testing.assert_allclose(moments(gate="retention", retention=1.0), linear, rtol=1e-12, atol=1e-14)
    # A gate that hardly looks at the label and hardly opens is no gate.
    np.testing.assert_allclose(moments(rho=1e9, b=-40.0, decay=False), linear, rtol=1e-6, atol=1e-8)
    # A sigmoid far from saturation is an exponential.
    tilt = moments(rho=0.5, gate="exp")
    np.testing.assert_allclose(moments(rho=0.5, b=-45.0, decay=False), tilt, rtol=1e-10)
    assert np.array_equal(moments(rho=0.5, b=-9.0, gate="no_decay"), moments(rho=0.5, b=-9.0, decay=False))


def test_the_moments_at_another_length_are_those_of_a_fresh_object():
    one = GateMoments("he3", 0.1, 0.5, -9.0, 10)
    _ = one.mean, one.alignment(4)  # whatever was computed before must not leak
    for count in (0, 1, 1000):
        fresh = GateMoments("he3", 0.1, 0.5, -9.0, count)
        assert np.array_equal(one.at(count).mean, fresh.mean)
        assert np.array_equal(one.at(count).second_moment, fresh.second_moment)
        assert one.at(count).alignment(4) == fresh.alignment(4)
    assert one.num_examples == 10
    np.testing.assert_array_equal(
        one.alignment_curve([1, 100], 4), [GateMoments("he3", 0.1, 0.5, -9.0, n).alignment(4) for n in (1, 100)]
    )


def test_without_examples_there_is_no_state():
    empty = GateMoments("he3", 0.1, 0.5, -9.0, 0)
    assert not empty.mean.any()
    assert not empty.second_moment.any()
    assert not empty.block_energy(4).any()
    assert empty.alignment(4) == 0
    assert empty.alignment(4, degree=2) == 0


def test_curves_to_a_billion_examples_are_finite_monotone_and_quick():
    lengths = np.unique(np.geomspace(1, 1e9, 300).astype(int))
    gate = GateMoments("he3", 0.1, 0.5, -9.0, 1)
    begin = time.perf_counter()
    curve = gate.alignment_curve(lengths.tolist(), 4)
    assert time.perf_counter() - begin < 5
    assert bool(np.isfinite(curve).all())
    # Each N refreshes the same stationary memory, so alignment only grows.
    assert bool((np.diff(curve) > -1e-12).all())
    assert np.isfinite(gate.at(10**12).alignment(4))


@pytest.mark.parametrize(("link", "degree", "rho", "b"), [("he3", 1, 0.5, -9.0), ("he2", 2, 1.0, -5.0)])
def test_the_limit_with_decay_is_the_stationary_state_and_without_it_perfect(link, degree, rho, b):
    """Stationary sums: ``1/l``, ``1/l2`` and ``1/(l l2)`` with ``l = E f``, ``l2 = E[2f - f^2]``."""
    r = 4
    gate = GateMoments(link, 0.1, rho, b, 10**9)
    # One-token integrals on a dense grid, apart from the package's quadrature.
    z = np.linspace(-12, 12, 400_001)
    mass = np.exp(-z * z / 2)
    mass /= mass.sum() * 2
    sums = np.zeros(8)
    for sign in (-1, 1):
        y = {"he3": (z**3 - 3 * z) / 6**0.5, "he2": (z * z - 1) / 2**0.5}[link] + 0.1 * sign
        f = expit(y / rho + b)
        a = np.exp(log_expit(y / rho + b) - log_expit(b)) * y
        h = {1: z, 2: (z * z - 1) / 2**0.5}[degree]
        rows = [a * h, (a * h) ** 2, (1 - f) * a * h, a**2, (a * z) ** 2, f, 2 * f - f * f, mass / mass]
        sums += np.array([row @ mass for row in rows])
    m, square, kept, flat, pair, loss, loss2, one = sums
    assert one == pytest.approx(1)
    parallel = square / loss2 + 2 * m * kept / (loss * loss2)
    others = {1: (r - 1) * flat, 2: (r - 1) * pair + (r - 1) * r / 2 * flat}[degree] / loss2
    limit = (m / loss) / np.sqrt(parallel + others)
    assert gate.alignment(r, degree) == pytest.approx(limit, rel=1e-6)
    assert abs(limit) < 0.99
    for count, tolerance in ((10**9, 1e-3), (10**12, 1e-6)):
        assert GateMoments(link, 0.1, rho, b, count, decay=False).alignment(r, degree) == pytest.approx(
            np.sign(m), abs=tolerance
        )


def test_noise_enters_the_variance_and_lowers_the_alignment():
    values = [GateMoments("he3", tau, 0.5, -9.0, 1024).alignment(4) for tau in (0.0, 0.5, 1.0, 2.0)]
    assert bool((np.diff(values) < 0).all())


def test_more_dimensions_lower_the_alignment():
    gate = GateMoments("he3", 0.1, 0.5, -9.0, 1024)
    for degree in (1, 2):
        values = [gate.alignment(r, degree) for r in (1, 2, 4, 8, 16)]
        assert bool((np.diff(values) < 0).all())


def test_an_odd_link_with_an_unbiased_gate_has_no_degree_one_signal():
    """``g sigmoid(g/rho)`` is ``g/2`` plus an even function, and He_3 is orthogonal to ``z``."""
    gate = GateMoments("he3", 0.0, 0.5, 0.0, 100, decay=False)
    assert abs(gate.mean[1]) < 1e-12
    assert GateMoments("he3", 0.0, 0.5, -1.0, 100, decay=False).mean[1] > 0.1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"link": "he3", "gate": "exp"}, "too fast|not finite|integrable"),
        ({"gate": "softmax"}, "the gate is 'softmax'"),
        ({"gate": "retention", "retention": 0.0}, "retention"),
        ({"gate": "retention", "retention": 1.5}, "retention"),
        ({"noise": -1.0}, "noise"),
        ({"rho": 0.0}, "rho"),
        ({"b": float("inf")}, "b is inf"),
        ({"num_examples": -1}, "num_examples"),
        ({"num_examples": 10**13}, "num_examples"),
        ({"num_examples": 1.5}, "num_examples"),
    ],
)
def test_wrong_arguments_are_refused(arguments, word):
    with pytest.raises(InputError, match=word):
        _ = GateMoments(**({"link": "sin"} | arguments)).token


def test_wrong_questions_are_refused():
    gate = GateMoments("sin", num_examples=5)
    with pytest.raises(InputError, match="degree"):
        gate.alignment(3, degree=3)
    with pytest.raises(InputError, match="dim"):
        gate.block_energy(0)
    with pytest.raises(InputError, match="num_examples"):
        gate.at(-1)


@pytest.mark.parametrize("count", [1, 100, 10**9, 10**12])
def test_the_covariance_keeps_its_digits_beside_a_large_mean(count):
    # Var cos(z) = (1 + exp(-2))/2 - exp(-1); Var of (c + cos z) z = E z^2 (c + cos z)^2, as E z cos z = 0.
    exact = (1 + np.exp(-2)) / 2 - np.exp(-1)
    for mean in (0, 10, 1e3):
        covariance = GateMoments(f"{mean}+cos(z)", num_examples=count, gate="linear").covariance * count
        assert covariance[0, 0] == pytest.approx(exact, rel=1e-9)
        # E z^2 cos z = 0 and E z^2 cos^2 z = (1 - 3 exp(-2))/2.
        assert covariance[1, 1] == pytest.approx(mean**2 + (1 - 3 * np.exp(-2)) / 2, rel=1e-9, abs=1e-9)
        noisy = GateMoments(f"{mean}+cos(z)", 0.5, num_examples=count, gate="linear").covariance * count
        assert noisy[0, 0] == pytest.approx(exact + 0.25, rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, 50, 10**4, 10**6])
@pytest.mark.parametrize(
    "settings",
    [
        {"link": "he3", "rho": 0.5, "b": -9.0},
        {"link": "10+sin(z)", "rho": 2.0, "b": -3.0},
        {"link": "tanh", "rho": 1.0, "b": 2.0},
        {"link": "he2", "gate": "retention", "retention": 0.7},
        {"link": "he2", "rho": 1.0, "b": -5.0, "decay": False},
    ],
)
def test_the_covariance_is_the_second_moment_less_the_mean_squared(settings, count):
    gate = GateMoments(noise=0.3, num_examples=count, **settings)
    difference = gate.second_moment - np.outer(gate.mean, gate.mean)
    np.testing.assert_allclose(gate.covariance, difference, rtol=1e-9, atol=1e-11 * np.abs(gate.second_moment).max())


def test_the_covariance_with_forgetting_keeps_its_digits_beside_a_large_mean():
    # Retention lets no label decide what is forgotten: independent terms with weights lambda^(N-j).
    keep, count = 0.999, 10**5
    squares = -np.expm1(2 * count * np.log(keep)) / ((1 - keep) * (1 + keep))
    gate = GateMoments("1e3+cos(z)", num_examples=count, gate="retention", retention=keep)
    exact = ((1 + np.exp(-2)) / 2 - np.exp(-1)) * squares / count**2
    assert gate.covariance[0, 0] == pytest.approx(exact, rel=1e-9)
    # A gate that hardly opens forgets nothing.
    shut = GateMoments("1e3+cos(z)", rho=1e9, b=-200.0, num_examples=10**6)
    assert shut.covariance[0, 0] * 10**6 == pytest.approx((1 + np.exp(-2)) / 2 - np.exp(-1), rel=1e-5)


@pytest.mark.parametrize(("link", "rho"), [("he3", 1.0), ("he3", 10.0), ("he2", 0.5)])
def test_weights_that_leave_float64_are_what_is_blamed(link, rho):
    with pytest.raises(InputError, match=r"weights up to exp\(.*\) times .* cannot hold; raise b or rho") as caught:
        _ = GateMoments(link, rho=rho, b=-800.0).token
    assert "\n" not in str(caught.value)


def test_a_very_shut_gate_on_bounded_labels_is_an_exponential_tilt():
    shut, tilt = GateMoments("tanh", 0.1, 0.5, -800.0, 100), GateMoments("tanh", 0.1, 0.5, num_examples=100, gate="exp")
    np.testing.assert_allclose(shut.second_moment, tilt.second_moment, rtol=1e-12)


@pytest.mark.parametrize("noise", [np.float32(0.25), np.float64(0.25), np.float16(0.25)])
def test_noise_may_be_any_real_number(noise):
    assert GateMoments("sin", noise, num_examples=5).alignment(3) == GateMoments("sin", 0.25, num_examples=5).alignment(
        3
    )
    others: list[Any] = [np.int64(1), "0.1", None, True, 1j]
    assert GateMoments("sin", others[0]).noise == 1.0
    for wrong in others[1:]:
        with pytest.raises(InputError, match="noise is"):
            GateMoments("sin", wrong)
