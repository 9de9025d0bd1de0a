"""Exact moments of the state against a plain NumPy simulation of ``S = (1/N) sum_j G_j y_j phi(x_j)``."""

import numpy as np
import pytest
from scipy.special import log_expit

from iclab.theory import GateMoments

LINKS = {
    "he3": lambda z: (z**3 - 3 * z) / np.sqrt(6),
    "he2": lambda z: (z * z - 1) / np.sqrt(2),
    "sin": np.sin,
    "sign": np.sign,
}
GATES = [
    ("mamba", 0.7, -3.0),
    ("mamba", 0.5, -9.0),
    ("no_decay", 1.0, -2.0),
    ("linear", 1.0, 0.0),
    ("retention", 1.0, 0.0),
    ("exp", 1.5, 0.0),
]
RETENTION = 0.8
BOUNDED = ("sin", "sign")


def weights(y: np.ndarray, gate: str, rho: float, b: float) -> np.ndarray:
    """``G_j / s(0)`` for labels ``(P, N)``, in logs."""
    u = y / rho + b
    keep = {"mamba": log_expit(-u), "retention": np.full_like(y, np.log(RETENTION))}.get(gate, np.zeros_like(y))
    gain = {"mamba": log_expit(u) - log_expit(b), "exp": y / rho}.get(gate, np.zeros_like(y))
    if gate == "no_decay":
        gain = log_expit(u) - log_expit(b)
    later = np.flip(np.cumsum(np.flip(keep, 1), 1), 1) - keep
    return np.exp(gain + later + (log_expit(-b) if gate == "mamba" else 0.0))


def features(x: np.ndarray, beta: np.ndarray, others: np.ndarray) -> np.ndarray:
    """``(P, N, 9)``: ``1, z, h_2(z)``, then ``w, z w`` for two directions, then ``h_2(w_1)`` and ``w_1 w_2``."""
    z, w, v = x @ beta, x @ others[0], x @ others[1]
    h2 = (z * z - 1) / np.sqrt(2)
    return np.stack([np.ones_like(z), z, h2, w, z * w, v, z * v, (w * w - 1) / np.sqrt(2), w * v], -1)


def exact_moments(m: GateMoments) -> tuple[np.ndarray, np.ndarray]:
    mean, second = np.zeros(9), np.zeros((9, 9))
    mean[:3], second[:3, :3] = m.mean, m.second_moment
    second[3:5, 3:5] = second[5:7, 5:7] = m.orthogonal_covariance
    second[7, 7] = second[8, 8] = m.orthogonal_variance
    return mean, second


@pytest.mark.parametrize("link", list(LINKS))
@pytest.mark.parametrize(("count", "prompts"), [(1, 200_000), (2, 200_000), (7, 100_000), (40, 30_000)])
def test_means_and_covariances_are_those_of_a_simulation(link, count, prompts):
    rng = np.random.default_rng([list(LINKS).index(link), count])
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    noise = 0.3
    sums = {gate: [np.zeros((9, 10)), np.zeros((9, 10))] for gate in GATES}
    chunk = 400_000 // count
    drawn = 0
    while drawn < prompts:
        size = min(chunk, prompts - drawn)
        drawn += size
        x = rng.normal(size=(size, count, 6))
        y = LINKS[link](x @ basis[0]) + noise * rng.choice([-1.0, 1.0], size=(size, count))
        phi = features(x, basis[0], basis[1:3])
        for gate, totals in sums.items():
            if gate[0] == "exp" and link not in BOUNDED:
                continue
            s = np.matmul((weights(y, *gate) * y)[:, None], phi)[:, 0] / count
            extended = np.concatenate([np.ones((size, 1)), s], 1)
            totals[0] += s.T @ extended
            totals[1] += (s**2).T @ extended**2
    for gate, (first, square) in sums.items():
        if gate[0] == "exp" and link not in BOUNDED:
            continue
        simulated = first / prompts
        error = np.sqrt(np.maximum(square / prompts - simulated**2, 0) / prompts)
        name, rho, b = gate
        mean, second = exact_moments(GateMoments(link, noise, rho, b, count, gate=name, retention=RETENTION))
        expected = np.concatenate([mean[:, None], second], 1)
        off = np.abs(simulated - expected) / (error + 1e-12 * np.abs(expected).max())
        assert off.max() < 5, (gate, np.unravel_index(off.argmax(), off.shape), off.max())


@pytest.mark.parametrize(("link", "rho", "b"), [("he3", 0.5, -9.0), ("sin", 0.8, -2.0)])
def test_alignment_and_energies_of_whole_blocks(link, rho, b):
    """With a fresh direction for each prompt and the embedding written out: ``|S_k|^2``, and the correlation over
    prompts and queries of ``<S_1, x>`` with ``<beta, x>``."""
    rng = np.random.default_rng(5)
    prompts, count, d = 60_000, 30, 4
    beta = rng.normal(size=(prompts, d))
    beta /= np.linalg.norm(beta, axis=1, keepdims=True)
    x = rng.normal(size=(prompts, count, d))
    y = LINKS[link](np.einsum("pnd,pd->pn", x, beta)) + 0.1 * rng.choice([-1.0, 1.0], size=(prompts, count))
    c = weights(y, "mamba", rho, b) * y / count
    zeroth = c.sum(1)
    first = np.einsum("pn,pnd->pd", c, x)
    matrix = np.matmul(np.swapaxes(x, 1, 2), c[:, :, None] * x)
    rows, columns = np.triu_indices(d, 1)
    diagonal = (matrix[:, range(d), range(d)] - zeroth[:, None]) / np.sqrt(2)
    energies = np.stack(
        [zeroth**2, (first**2).sum(1), (diagonal**2).sum(1) + (matrix[:, rows, columns] ** 2).sum(1)], 1
    )
    exact = GateMoments(link, 0.1, rho, b, count)
    error = energies.std(0) / prompts**0.5
    assert bool((np.abs(energies.mean(0) - exact.block_energy(d)) < 5 * error).all())
    # On three of the four coordinates of an input whose direction lies in them.
    query = rng.normal(size=(prompts, d))
    h, index = (first * query).sum(1), (beta * query).sum(1)
    alignment = exact.alignment(d)
    products = h * index
    assert abs(products.mean() - alignment * np.sqrt(exact.block_energy(d)[1])) < 5 * products.std() / prompts**0.5
    assert np.corrcoef(h, index)[0, 1] == pytest.approx(alignment, abs=0.02)
    degree_two = (np.einsum("pi,pij,pj->p", beta, matrix, beta) - zeroth) / np.sqrt(2)
    assert abs(degree_two.mean() - exact.mean[2]) < 5 * degree_two.std() / prompts**0.5


# Correlation of h with <beta, x>: He_3, d = 8, r = 4, tau = 0.1, rho = 0.5, b = -9; see docs/theory/gate_moments.md.
@pytest.mark.parametrize(
    ("count", "decay", "value"),
    [(256, False, 0.611), (1024, False, 0.840), (4096, False, 0.952), (256, True, 0.618), (1024, True, 0.770)],
)
def test_the_reference_table(count, decay, value):
    exact = GateMoments("he3", 0.1, 0.5, -9.0, count, decay).alignment(4)
    assert exact == pytest.approx(value, abs=0.002)
    rng = np.random.default_rng(count + decay)
    prompts = 3_000_000 // count
    projections, energies = [], []
    for _ in range(4):
        x = rng.normal(size=(prompts // 4, count, 4))
        y = LINKS["he3"](x[:, :, 0]) + 0.1 * rng.choice([-1.0, 1.0], size=x.shape[:2])
        s = np.einsum("pn,pnd->pd", weights(y, "mamba" if decay else "no_decay", 0.5, -9.0) * y, x) / count
        projections.append(s[:, 0])
        energies.append((s**2).sum(1))
    a, e = np.concatenate(projections), np.concatenate(energies)
    pooled = a.mean() / np.sqrt(e.mean())
    error = pooled * (a / a.mean() - e / (2 * e.mean())).std() / len(a) ** 0.5
    assert abs(pooled - exact) < 5 * error
