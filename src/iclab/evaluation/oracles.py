"""A learner that is told the support and the link, and reads the direction that a gate finds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError, check_integer
from iclab.evaluation.probes import alignment
from iclab.links import Link, hermite_functions
from iclab.models import OneLayerMamba
from iclab.prompts import Prompts, SingleIndex, Stream

_DEGREE = 40
_BATCH = 64


class DirectionReadout:
    """The population-optimal readout of the direction of ``S_1``.

    It may normalise each prompt by its own ``|S_1|``, which the model's head cannot (see `HeadReadout`); it does not
    use what ``|S_1|`` tells about the quality of the direction, nor the degree-2 block. So it bounds readouts of the
    direction, and nothing else.

    The oracle is told the support and the link. It reads ``u = <S_1, x>/|S_1|`` on the support, which is standard
    normal and has correlation ``rho`` with ``<beta, x>``, the cosine of ``S_1`` with ``beta``. The best prediction from
    ``u`` is ``E[g(<beta, x>) | u] = sum_k E[rho^k] c_k h_k(u)`` (Mehler's formula, averaged over prompts), with error
    ``sum_k c_k^2 (1 - E[rho^k]^2)``. The moments of ``rho`` are taken from calibration tasks at each context length.

    Args:
        model: supplies the gate; ``gamma`` and the head are not used.
        prompts: Gaussian single-index prompts: supplies the link, the support and the calibration tasks.
        stream: of the calibration tasks; another one than that of the reported prompts.
        num_examples: context lengths to calibrate at; predictions use the nearest one in ratio.
        num_tasks: calibration tasks at each length.
    """

    def __init__(
        self,
        model: OneLayerMamba,
        prompts: SingleIndex,
        stream: Stream,
        num_examples: Sequence[int],
        num_tasks: int = 1024,
    ) -> None:
        self.model = model
        self.support = list(prompts.support)
        if prompts.rotation is not None or prompts.inputs.kind != "gaussian" or prompts.inputs.covariance is not None:
            raise InputError("the oracle readout needs independent gaussian inputs and a support among the coordinates")
        self.coefficients = _coefficients(prompts.link)
        self.energy = prompts.link.mean**2 + prompts.link.variance  # what lies beyond the series is never predicted
        lengths = sorted({check_integer("num_examples", n, 0) for n in num_examples} - {0})
        if not lengths:
            raise InputError("num_examples has no length >= 1 to calibrate the oracle at")
        self.moments = self._calibrate(prompts, stream, lengths, check_integer("num_tasks", num_tasks, 2))

    @property
    def name(self) -> str:
        return "oracle: support told, optimal readout of the direction of S_1"

    @torch.no_grad()
    def predict(self, prompts: Prompts) -> Tensor:
        """Predict the conditional mean at the queries, ``(B, Q)``; ``E g`` at N = 0."""
        if prompts.num_examples == 0:
            return torch.full(prompts.queries.shape[:2], float(self.coefficients[0]), dtype=prompts.inputs.dtype)
        direction = self.model.features(prompts).degree1.double().cpu()[:, self.support]
        direction = direction / direction.norm(dim=1, keepdim=True).clamp(min=1e-300)
        u = torch.einsum("bqd,bd->bq", prompts.queries.double().cpu()[:, :, self.support], direction).numpy()
        basis = hermite_functions(u.ravel(), _DEGREE).reshape(*u.shape, -1)
        nearest = min(self.moments, key=lambda n: abs(np.log(n / prompts.num_examples)))
        return torch.from_numpy(basis @ (self.moments[nearest] * self.coefficients)).to(prompts.inputs.dtype)

    def expected_error(self, num_examples: int) -> float:
        """Return ``E g^2 - sum_k (c_k E[rho^k])^2`` at a calibrated length.

        Raises:
            InputError: for another length.
        """
        if num_examples not in self.moments:
            raise InputError(f"num_examples is {num_examples}; expected one of {sorted(self.moments)}")
        return float(self.energy - ((self.coefficients * self.moments[num_examples]) ** 2).sum())

    def _calibrate(
        self, prompts: SingleIndex, stream: Stream, lengths: list[int], num_tasks: int
    ) -> dict[int, np.ndarray]:
        cosines: dict[int, list[np.ndarray]] = {n: [] for n in lengths}
        for start in range(0, num_tasks, _BATCH):
            batch = prompts.sample(stream, min(_BATCH, num_tasks - start), lengths[-1], 0, start=start)
            for n in lengths:
                cosines[n].append(alignment(self.model, batch.prefix(n), self.support).cosine(1))
        powers = np.arange(_DEGREE + 1)
        return {n: (np.concatenate(parts)[:, None] ** powers).mean(0) for n, parts in cosines.items()}


def readout_error(link: Link, cosine: float | np.ndarray) -> np.ndarray:
    """Compute the error of the best readout of a direction at cosine ``rho`` with ``beta``.

    It is ``sum_{k>=1} c_k^2 (1 - rho^(2k))``.

    Args:
        link: ``g``, with Hermite coefficients ``c_k``.
        cosine: ``rho``, a number or ``(n,)``.

    Returns:
        ``(n,)``; ``(1,)`` for a number.

    Raises:
        InputError: for a cosine that is NaN or outside [-1, 1] by more than rounding.

    Reference: Mehler's formula; see `DirectionReadout`.
    """
    energy = _coefficients(link) ** 2
    rho = np.atleast_1d(np.asarray(cosine, dtype=float))
    if not (np.abs(rho) <= 1 + 1e-9).all():
        raise InputError(f"the cosine is {cosine!r:.60}; expected numbers in [-1, 1]")
    explained = (energy[1:] * rho[:, None] ** (2 * np.arange(1, _DEGREE + 1))).sum(1)
    return link.variance - explained


def _coefficients(link: Link) -> np.ndarray:
    values, _, _ = link.integrals(lambda z: link(z)[:, None] * hermite_functions(z, _DEGREE))
    return values
