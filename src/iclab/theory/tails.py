"""How heavy the tail of the state's energy is: whether its variance exists, and whether a sample can see it."""

from __future__ import annotations

from math import comb

import numpy as np

from iclab.errors import InputError, check_integer
from iclab.links import gaussian_expectations
from iclab.links.quadrature import ConvergenceError
from iclab.theory.gate_moments import GateMoments


def tail_ratio(moments: GateMoments, dim: int, degree: int = 1) -> float:
    """Compute ``sum_j E|v_j|^4 / (E|S_k|^2)^2``, where ``v_j`` is what example j adds to the degree-k block ``S_k``.

    It is the part of ``E|S_k|^4 / (E|S_k|^2)^2`` that single examples make, all of it at N = 1, and so about the
    relative variance of ``|S_k|^2`` where labels are heavy-tailed. A mean of ``|S_k|^2`` over P prompts then has a
    relative standard error of ``sqrt(tail_ratio / P)``; where that is not small, the sample lacks the prompts that
    carry the energy, and no resampling of it can know.

    Args:
        moments: of the gate and the link, at some N.
        dim: coordinates that contain ``beta``, as in `GateMoments.block_energy`.
        degree: 1 or 2.

    Returns:
        The ratio; ``inf`` where fourth moments do not exist although second ones do (an exponential tilt of a quadratic
        link), and 0 for a block without energy.

    Raises:
        InputError: for another degree, or where the second moments do not exist.

    Reference: ``docs/theory/gate_moments.md``.
    """
    if degree not in (1, 2):
        raise InputError(f"degree is {degree}; expected 1 or 2")
    energy = moments.block_energy(dim)[degree]
    if not energy > 0:
        return 0.0
    try:
        fourth, lost = _token_moments(moments, check_integer("dim", dim, 1), degree)
    except ConvergenceError:
        raise
    except InputError:
        return float("inf")
    count = moments.num_examples
    kept = float(count) if lost == 0 else float(-np.expm1(count * np.log1p(-lost)) / lost)
    scale = moments.weight.query_factor / count
    return float(fourth * kept * (scale / np.sqrt(energy)) ** 4)


def _token_moments(moments: GateMoments, dim: int, degree: int) -> tuple[float, float]:
    """``E[A^4 |phi_k|^4]`` on ``dim`` coordinates, and ``1 - E(1-f)^4``."""
    signs = (-1.0, 1.0) if moments.noise else (0.0,)

    def integrand(z: np.ndarray) -> np.ndarray:
        total = np.zeros((len(z), 2))
        clean, size = moments.link(z), _feature_size(z, dim, degree)
        for sign in signs:
            y = clean + sign * moments.noise
            forgotten = moments.weight.forgetting(y)
            kept = 1 - forgotten
            gained = moments.weight.gain(y) * y
            total += np.stack([gained**4 * size, forgotten * (1 + kept + kept**2 + kept**3)], 1)
        return total / len(signs)

    values, _ = gaussian_expectations(integrand, moments.link.breakpoints)
    return float(values[0]), float(values[1])


def _feature_size(z: np.ndarray, dim: int, degree: int) -> np.ndarray:
    """``E[|phi_k(x)|^4 | z]``, with ``|phi_1|^2 = |x|^2`` and ``|phi_2|^2 = (|x|^4 - 2|x|^2 + dim) / 2``."""

    def power(k: int) -> np.ndarray:
        """``E[|x|^(2k) | z]``, with ``|x|^2 = z^2 + |w|^2`` and ``|w|^2`` chi squared of ``dim - 1`` degrees."""
        others = [float(np.prod([dim - 1 + 2 * i for i in range(j)])) for j in range(k + 1)]
        return np.sum([comb(k, j) * z ** (2 * (k - j)) * others[j] for j in range(k + 1)], axis=0)

    if degree == 1:
        return power(2)
    return (power(4) - 4 * power(3) + (4 + 2 * dim) * power(2) - 4 * dim * power(1) + dim**2) / 4
