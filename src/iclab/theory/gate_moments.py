"""Exact mean and covariance of the state ``S = (1/N) sum_j G_j y_j phi(x_j)`` at finite N, without sampling.

Derivation: docs/theory/gate_moments.md (the degree-1 block is section 6 of our notes on arXiv 2510.12026).
Coordinates follow ``beta``: with ``z = <beta, x>`` and ``w`` the part of ``x`` orthogonal to ``beta``, the embedding
splits into the parallel features ``1, z, h_2(z)``, for each of the d-1 orthogonal directions the pair ``w_e, z w_e``,
and the ``(d-1)d/2`` features of degree 2 in ``w`` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from iclab.errors import InputError, check_integer, check_number
from iclab.links import Link, make_link
from iclab.theory.geometric import decay_sums, retained_variance
from iclab.theory.weights import LabelWeight

_MAX_EXAMPLES = 10**12
_ROUNDING = 1e-13


@dataclass(frozen=True)
class TokenMoments:
    """One-token integrals, ``A = s(y) y`` and ``psi = (1, z, h_2(z))``.

    Attributes:
        mean: ``(3,)``, ``E[A psi]``.
        square: ``(3, 3)``, ``E[A^2 psi psi']``.
        kept: ``(3,)``, ``E[(1-f) A psi]``.
        square_index: ``(3,)``, ``E[A^2], E[A^2 z], E[A^2 z^2]``: variances of the orthogonal features.
        loss: ``E f``, so that ``q = 1 - loss``.
        loss2: ``E[2f - f^2]``, so that ``q2 = E(1-f)^2 = 1 - loss2``.
    """

    mean: np.ndarray
    square: np.ndarray
    kept: np.ndarray
    square_index: np.ndarray
    loss: float
    loss2: float


@dataclass(frozen=True)
class TokenSpread:
    """Centred one-token integrals, computed as such: differences of raw moments lose digits where a mean is large.

    Attributes:
        covariance: ``(3, 3)``, ``Cov(A psi)``.
        kept: ``(3,)``, ``Cov(1 - f, A psi)``.
        forgetting: ``Var f``.
    """

    covariance: np.ndarray
    kept: np.ndarray
    forgetting: float


class GateMoments:
    """Exact first and second moments of the state of a scalar-gated recurrence on single-index prompts.

    Args:
        link: ``g``.
        noise: ``tau`` of the two-point label noise.
        rho, b: of the gate ``sigmoid(y/rho + b)``.
        num_examples: N >= 0.
        decay: with ``False``, nothing is forgotten.
        gate: a gate of `LabelWeight` instead of the sigmoid one (``exp``, ``linear``, ``retention``).
        retention: ``lambda`` of the gate ``retention``.

    All moments are of ``S`` divided by ``s(0)`` (see `LabelWeight`), which no direction or correlation depends on.

    Raises:
        InputError: for bad sizes, and where a moment does not exist (an exponential tilt of a cubic link).
    """

    def __init__(
        self,
        link: Link | str | Sequence[float] | Callable,
        noise: float = 0.0,
        rho: float = 1.0,
        b: float = 0.0,
        num_examples: int = 1,
        decay: bool = True,
        *,
        gate: str | None = None,
        retention: float = 1.0,
    ) -> None:
        self.link = make_link(link)
        if check_number("noise", noise) < 0:
            raise InputError(f"noise is {noise!r}; expected a finite number >= 0")
        self.noise = float(noise)
        self.weight = LabelWeight(gate or ("mamba" if decay else "no_decay"), rho, b, retention)
        self.num_examples = check_integer("num_examples", num_examples, 0, _MAX_EXAMPLES)

    def at(self, num_examples: int) -> GateMoments:
        """Return the moments of the same gate at another N; the integrals are shared, so this costs microseconds."""
        other = object.__new__(GateMoments)
        other.__dict__.update(self.__dict__)
        other.__dict__["token"] = self.token
        other.__dict__.pop("_sums", None)  # depends on N
        other.num_examples = check_integer("num_examples", num_examples, 0, _MAX_EXAMPLES)
        return other

    @cached_property
    def token(self) -> TokenMoments:
        """The one-token integrals."""
        signs = (-1.0, 1.0) if self.noise else (0.0,)

        def integrand(z: np.ndarray) -> np.ndarray:
            psi = np.stack([np.ones_like(z), z, (z * z - 1) / 2**0.5], 1)
            pairs = np.stack([psi[:, i] * psi[:, j] for i in range(3) for j in range(i, 3)], 1)
            total = np.zeros((len(z), 15))
            clean = self.link(z)
            for sign in signs:
                y = clean + sign * self.noise
                gained = self.weight.gain(y) * y
                forgotten = self.weight.forgetting(y)
                total += np.concatenate(
                    [
                        gained[:, None] * psi,
                        (gained**2)[:, None] * pairs,
                        ((1 - forgotten) * gained)[:, None] * psi,
                        (gained * z)[:, None] ** 2,
                        forgotten[:, None],
                        (forgotten * (2 - forgotten))[:, None],
                    ],
                    1,
                )
            return total / len(signs)

        try:
            v, _, _ = self.link.integrals(integrand)
        except InputError as error:
            raise InputError(self._why_infinite(error)) from None
        square = np.array([[v[3], v[4], v[5]], [v[4], v[6], v[7]], [v[5], v[7], v[8]]])
        return TokenMoments(v[:3], square, v[9:12], np.array([v[3], v[4], v[12]]), float(v[13]), float(v[14]))

    @cached_property
    def spread(self) -> TokenSpread:
        """The centred one-token integrals."""
        token = self.token
        signs = (-1.0, 1.0) if self.noise else (0.0,)
        centre = np.append(token.mean, token.loss)
        pairs = [(i, j) for i in range(4) for j in range(i, 4)]

        def integrand(z: np.ndarray) -> np.ndarray:
            psi = np.stack([np.ones_like(z), z, (z * z - 1) / 2**0.5], 1)
            total = np.zeros((len(z), len(pairs)))
            clean = self.link(z)
            for sign in signs:
                y = clean + sign * self.noise
                gained = (self.weight.gain(y) * y)[:, None] * psi
                off = np.column_stack([gained, self.weight.forgetting(y)]) - centre
                total += np.stack([off[:, i] * off[:, j] for i, j in pairs], 1)
            return total / len(signs)

        # The subtraction leaves rounding noise of the size of what was subtracted from.
        size = np.sqrt(np.append(np.diagonal(token.square), token.loss2))
        left = np.sqrt(np.maximum(size**2 - centre**2, 0.0))
        noise = 8 * np.finfo(float).eps * size
        floor = np.array([noise[i] * left[j] + noise[j] * left[i] + noise[i] * noise[j] for i, j in pairs])
        values, _, _ = self.link.integrals(integrand, floor)
        full = np.zeros((4, 4))
        for (i, j), value in zip(pairs, values, strict=True):
            full[i, j] = full[j, i] = value
        return TokenSpread(full[:3, :3], -full[:3, 3], float(full[3, 3]))

    def _why_infinite(self, error: InputError) -> str:
        """What keeps the one-token integrals from being computed, in terms of the gate."""
        z = np.linspace(-37.0, 37.0, 1481)
        with np.errstate(all="ignore"):
            y = np.concatenate([np.asarray(self.link(z)) + sign * self.noise for sign in (-1.0, 1.0)])
            size = self.weight.log_gain(y)
        reach = float(np.nanmax(size))
        gate = f"the gate {self.weight.gate} at rho = {self.weight.rho:g}"
        if self.weight.gate in ("mamba", "no_decay") and reach > 300:
            return (
                f"{gate}, b = {self.weight.b:g} gives labels of {self.link.name!r} weights up to exp({reach:.4g}) "
                "times that of label 0, whose square float64 cannot hold; raise b or rho"
            )
        return f"the moments of {self.link.name!r} under {gate}: {error}"

    @cached_property
    def _sums(self) -> tuple[float, float, float]:
        return decay_sums(self.token.loss, self.token.loss2, self.num_examples)

    @property
    def _scale(self) -> float:
        return self.weight.query_factor / max(self.num_examples, 1)

    @property
    def mean(self) -> np.ndarray:
        """``(3,)``: ``E S`` on the features ``1, z, h_2(z)``; it vanishes on all others."""
        return self._scale * self._sums[0] * self.token.mean

    @property
    def second_moment(self) -> np.ndarray:
        """``(3, 3)``: ``E[S S']`` on the features ``1, z, h_2(z)``."""
        _, squares, crossed = self._sums
        m, a = self.token.mean, self.token.kept
        return self._scale**2 * (self.token.square * squares + (np.outer(m, a) + np.outer(a, m)) * crossed)

    @property
    def covariance(self) -> np.ndarray:
        """``(3, 3)``: covariance of ``S`` on the features ``1, z, h_2(z)``.

        From centred integrals, not as a difference of moments: that keeps its digits where the mean is large.
        """
        _, squares, crossed = self._sums
        m, k = self.token.mean, self.spread.kept
        token = self.token
        varied = retained_variance(token.loss, token.loss2, self.spread.forgetting, self.num_examples)
        within = self.spread.covariance * squares + (np.outer(m, k) + np.outer(k, m)) * crossed
        return self._scale**2 * (within + np.outer(m, m) * varied)

    @property
    def orthogonal_covariance(self) -> np.ndarray:
        """``(2, 2)``: covariance of ``S`` on the pair ``(w_e, z w_e)``, for any unit ``e`` orthogonal to ``beta``."""
        v = self.token.square_index
        return self._scale**2 * self._sums[1] * np.array([[v[0], v[1]], [v[1], v[2]]])

    @property
    def orthogonal_variance(self) -> float:
        """Variance of ``S`` on each normalised feature of degree 2 in ``w`` alone."""
        return float(self._scale**2 * self._sums[1] * self.token.square_index[0])

    def block_energy(self, dim: int) -> np.ndarray:
        """Return ``E |S_k|^2`` of the degree-k block on ``dim`` coordinates that contain ``beta``, for k = 0, 1, 2.

        Args:
            dim: the intrinsic r, or d for the whole input.

        Returns:
            Array ``(3,)``, in units of ``s(0)^2``.
        """
        dim = check_integer("dim", dim, 1)
        parallel = np.diagonal(self.second_moment)
        pair = np.diagonal(self.orthogonal_covariance)
        others = dim - 1
        return parallel + np.array(
            [0.0, others * pair[0], others * pair[1] + others * dim / 2 * self.orthogonal_variance]
        )

    def alignment(self, dim: int, degree: int = 1) -> float:
        """Return ``E[S_k . u] / sqrt(E |S_k|^2)``, where ``u`` is ``beta`` (degree 1) or ``beta beta'`` (degree 2).

        For degree 1 on the support this is the correlation of ``<S_1, x>`` with ``<beta, x>`` over prompts and queries.
        What rounding leaves of zero (below 1e-13) is zero.

        Args:
            dim: coordinates that contain ``beta``, as in `block_energy`.
            degree: k, 1 or 2.

        Raises:
            InputError: for another degree.
        """
        if degree not in (1, 2):
            raise InputError(f"degree is {degree}; expected 1 or 2")
        energy = self.block_energy(dim)[degree]
        value = float(self.mean[degree] / np.sqrt(energy)) if energy > 0 else 0.0
        return value if abs(value) > _ROUNDING else 0.0

    def alignment_curve(self, num_examples: Sequence[int], dim: int, degree: int = 1) -> np.ndarray:
        """Return the `alignment` at each context length.

        Args:
            num_examples: context lengths N, each up to 10^12.
            dim, degree: as in `alignment`.

        Returns:
            Array ``(len(num_examples),)``.
        """
        return np.array([self.at(int(n)).alignment(dim, degree) for n in num_examples])
