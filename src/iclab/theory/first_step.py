"""The exact Stage I gradient at a small start: which sign the first step gives to each Hermite degree.

Derived, see docs/theory/finite_size.md. With ``v = +-1`` and ``a1 ~ Unif[-1, 1]`` the frozen head is
``f(h) = (1 + h^2)/4`` for ``|h| <= 1``, so for small ``h`` a coordinate's gradient is
``E[(1/4 - y) (h/2) S_i phi_i(x)]``. Summed over the coordinates of one degree, at a constant ``gamma(0) = gamma``:

    gradient_k / gamma = E|S_k|^2 / 8 - E[ y (h_0 + h_1 + h_2) h_k ] / 2,      h_k = <S_k, phi_k(x)>.

The label term is not zero for ``ie(g) = 3``: the product of a degree-1 and a degree-2 coordinate has a degree-3 part.
"""

from __future__ import annotations

import numpy as np

from iclab.theory.gate_moments import GateMoments


def first_step(moments: GateMoments, dim: int) -> np.ndarray:
    """Compute, for each degree k, the two terms of the summed first gradient over ``gamma(0)``.

    They are ``E|S_k|^2/8`` and minus half the label term. Their sum's sign is the sign of ``-gamma*_k``, up to
    sampling.

    Args:
        moments: of the gate at the pretraining length; the limit is that of a small ``gamma(0)`` and a wide head.
        dim: the ambient dimension d.

    Returns:
        Array ``(3, 2)``, a row for each degree.

    Reference: ``docs/theory/finite_size.md``.
    """
    link = moments.link

    def integrand(z: np.ndarray) -> np.ndarray:
        g, h2 = link(z), (z * z - 1) / 2**0.5
        psi = np.stack([np.ones_like(z), z, h2], 1)
        return np.stack([g * psi[:, i] * psi[:, j] for i in range(3) for j in range(3)] + [g * z * z], 1)

    values, _, _ = link.integrals(integrand)
    product = values[:9].reshape(3, 3)  # E[g psi_i psi_j]
    mean, first, second = values[0], values[1], values[9]  # E g, E g z, E g z^2
    others = dim - 1
    pair = moments.orthogonal_covariance
    label = (moments.second_moment * product).sum(0)
    # Orthogonal features: w_e with w_e, w_e with z w_e, z w_e with z w_e, and the degree-2 features in w alone.
    label = label + np.array(
        [
            0.0,
            others * (pair[0, 0] * mean + pair[0, 1] * first),
            others * (pair[0, 1] * first + pair[1, 1] * second) + others * dim / 2 * moments.orthogonal_variance * mean,
        ]
    )
    return np.stack([moments.block_energy(dim) / 8, -label / 2], 1)
