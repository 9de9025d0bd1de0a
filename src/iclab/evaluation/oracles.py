"""Learners that are told what a learner must find out: ceilings for error curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from iclab.evaluation.probes import alignment
from iclab.links import Link, gaussian_expectations, hermite_functions
from iclab.models import OneLayerMamba
from iclab.prompts import Prompts

_DEGREE = 40


class DirectionReadout:
    """The population-optimal readout of the direction that the gate finds: a ceiling for the one-layer model.

    The oracle is told the support, so it reads ``u = <S_1, x>/|S_1|`` on it, and the cosine ``rho`` of ``S_1`` with
    ``beta``. Then ``(u, <beta, x>)`` is Gaussian with correlation ``rho`` and the best prediction of the target is
    ``E[g(<beta, x>) | u] = sum_k rho^k c_k h_k(u)`` (Mehler's formula), with error ``sum_{k>=1} c_k^2 (1 - rho^(2k))``.

    Args:
        model: supplies the gate; ``gamma`` and the head are not used.
        link: the true link.
        support: the true support.
    """

    def __init__(self, model: OneLayerMamba, link: Link, support: Sequence[int]) -> None:
        self.model = model
        self.support = list(support)
        values, _ = gaussian_expectations(lambda z: link(z)[:, None] * hermite_functions(z, _DEGREE), link.breakpoints)
        self.coefficients = values

    @property
    def name(self) -> str:
        return "oracle: support told, optimal readout of S_1"

    @torch.no_grad()
    def predict(self, prompts: Prompts) -> Tensor:
        """``(B, Q)``: the conditional mean; ``E g`` at N = 0."""
        if prompts.num_examples == 0:
            return torch.full(prompts.queries.shape[:2], float(self.coefficients[0]), dtype=prompts.inputs.dtype)
        state = self.model.features(prompts)
        cosine = alignment(state, prompts, self.support).cosine(1)
        direction = state.degree1.double()[:, self.support]
        direction = direction / direction.norm(dim=1, keepdim=True).clamp(min=1e-300)
        u = torch.einsum("bqd,bd->bq", prompts.queries.double()[:, :, self.support], direction).numpy()
        basis = hermite_functions(u.ravel(), _DEGREE).reshape(*u.shape, -1)
        powers = cosine[:, None] ** np.arange(_DEGREE + 1)
        return torch.from_numpy(np.einsum("bqk,bk->bq", basis, powers * self.coefficients)).to(prompts.inputs.dtype)


def readout_error(link: Link, cosine: float | np.ndarray) -> np.ndarray:
    """``sum_{k>=1} c_k^2 (1 - rho^(2k))``: error of the optimal readout of a direction at cosine ``rho`` with ``beta``."""
    values, _ = gaussian_expectations(lambda z: link(z)[:, None] * hermite_functions(z, _DEGREE), link.breakpoints)
    energy = values**2
    rho = np.atleast_1d(np.asarray(cosine, dtype=float))
    explained = (energy[1:] * rho[:, None] ** (2 * np.arange(1, _DEGREE + 1))).sum(1)
    return link.variance - explained
