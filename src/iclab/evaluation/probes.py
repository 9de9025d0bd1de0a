"""Probes of the one-layer model: does its state point along ``beta``, and does ``gamma`` single out the support?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError, check_integer
from iclab.models import OneLayerMamba, StateBlocks, block_degrees, in_support
from iclab.prompts import Prompts
from iclab.prompts.batch import check_finite


@dataclass(frozen=True)
class Alignment:
    """How the degree-1 and degree-2 blocks of ``S`` lie to ``beta`` and ``beta beta'``, prompt by prompt.

    Attributes:
        projection: ``(2, B)``, ``<S_1, beta>`` and ``<S_2, beta beta'>``.
        energy: ``(2, B)``, ``|S_1|^2`` and ``|S_2|^2`` on the coordinates asked for.
    """

    projection: np.ndarray
    energy: np.ndarray

    def cosine(self, degree: int = 1) -> np.ndarray:
        """Return the cosine of each prompt, ``(B,)``; 0 where the block vanishes."""
        row = _row(degree)
        size = np.sqrt(self.energy[row])
        return np.divide(self.projection[row], size, out=np.zeros_like(size), where=size > 0)

    def samples(self, degree: int = 1) -> np.ndarray:
        """Return projection and energy ``(2, B)``, the samples of the statistic ``alignment``.

        Theory gives that statistic exactly.
        """
        row = _row(degree)
        return np.stack([self.projection[row], self.energy[row]])


def alignment(
    source: OneLayerMamba | StateBlocks, prompts: Prompts, coordinates: Sequence[int] | None = None
) -> Alignment:
    """Measure the alignment of the state with the direction of each prompt.

    Args:
        source: a model, whose ``features`` are computed, or features already at hand.
        prompts: with directions.
        coordinates: restrict the blocks to these coordinates (the support: what an oracle ``gamma`` sees).

    Raises:
        InputError: for prompts without directions, coordinates that do not exist or repeat, and a state that is not
            finite.
    """
    if prompts.directions is None:
        raise InputError("these prompts carry no directions; expected prompts drawn from a SingleIndex")
    state = source.features(prompts) if isinstance(source, OneLayerMamba) else source
    last = prompts.ambient_dim - 1
    keep = [
        check_integer("a coordinate", c, 0, last) for c in (range(last + 1) if coordinates is None else coordinates)
    ]
    if not keep or len(set(keep)) < len(keep):
        raise InputError(f"coordinates are {keep}; expected at least one, and none twice")
    check_finite("the state", state.degree1)
    check_finite("the state", state.degree2)
    beta = prompts.directions.double().cpu()[:, keep]
    first = state.degree1.detach().double().cpu()[:, keep]
    projections, energies = [(first * beta).sum(1)], [(first**2).sum(1)]
    if state.degree2.shape[1]:
        second = state.degree2.detach().double().cpu()[:, keep][:, :, keep]
        projections.append(torch.einsum("bij,bi,bj->b", second, beta, beta))
        energies.append((second**2).sum((1, 2)))
    else:
        projections.append(torch.zeros_like(projections[0]))
        energies.append(torch.zeros_like(energies[0]))
    return Alignment(torch.stack(projections).numpy(), torch.stack(energies).numpy())


def support_auc(gamma: Tensor, embedding: str, support: Sequence[int], ambient_dim: int, degree: int) -> float:
    """Compute the area under the ROC curve of ``|gamma|`` as a score for "depends on the support alone".

    1 is perfect recovery, 1/2 is chance. NaN where the block has no coordinate inside or none outside.

    Args:
        gamma: ``(D,)``; infinite entries rank highest.
        embedding: one of `iclab.models.EMBEDDINGS`.
        support: indices of inputs.
        ambient_dim: d.
        degree: of the coordinates that are ranked, 1 or 2.

    Raises:
        InputError: for another degree, or a NaN in ``gamma``, which has no rank.
    """
    # scipy.stats takes longer to import than every other package of a worker but torch.
    from scipy.stats import rankdata

    _row(degree)
    chosen = block_degrees(embedding, ambient_dim) == degree
    if bool(torch.isnan(gamma).any()):
        raise InputError("gamma holds NaN, which has no rank; look at the loss of its training")
    scores = gamma.detach().abs().double().cpu()[chosen].numpy()
    inside = in_support(embedding, ambient_dim, tuple(support))[chosen].numpy()
    positives, negatives = int(inside.sum()), int((~inside).sum())
    if positives == 0 or negatives == 0:
        return float("nan")
    ranks = rankdata(scores)
    return float((ranks[inside].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def _row(degree: int) -> int:
    if degree not in (1, 2):
        raise InputError(f"degree is {degree}; expected 1 or 2")
    return degree - 1
