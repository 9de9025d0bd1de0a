"""The best head for the one-layer model: a ceiling for readouts of ``M/N`` when ``gamma`` is right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError, check_integer
from iclab.models import OneLayerMamba
from iclab.prompts import PromptDistribution, Prompts, Stream

_BINS = 80
_BATCH = 64
_QUERIES = 32


class HeadReadout:
    """The population-optimal fixed readout ``E[g(<beta, x>) | <S_1, x>]`` of the degree-1 block on the true support.

    This is what a perfect ``gamma`` and a perfect head would reach at each context length. The conditional mean is
    taken from calibration tasks: means over bins of equal mass, interpolated linearly. Unlike `DirectionReadout` it
    cannot normalise a prompt by its own ``|S_1|``, and neither can the model's head.

    Args:
        model: supplies the gate; ``gamma`` and the head are not used.
        prompts: supplies the support and the calibration tasks.
        stream: of the calibration tasks; another one than that of the reported prompts.
        num_examples: context lengths to calibrate at; predictions use the nearest one in ratio.
        num_tasks: calibration tasks at each length, each with 32 queries.
    """

    def __init__(
        self,
        model: OneLayerMamba,
        prompts: PromptDistribution,
        stream: Stream,
        num_examples: Sequence[int],
        num_tasks: int = 1024,
    ) -> None:
        if prompts.label_support is None:
            raise InputError(
                f"the head oracle needs a support among the coordinates, which this {type(prompts).__name__} does not "
                "have; leave a rotation unset"
            )
        self.model = model
        self.support = list(prompts.label_support)
        lengths = sorted({check_integer("num_examples", n, 1) for n in num_examples})
        if not lengths:
            raise InputError("num_examples is empty; expected at least one context length")
        values: dict[int, list[np.ndarray]] = {n: [] for n in lengths}
        targets: list[np.ndarray] = []
        for start in range(0, check_integer("num_tasks", num_tasks, _BINS // _QUERIES + 1), _BATCH):
            batch = prompts.sample(stream, min(_BATCH, num_tasks - start), lengths[-1], _QUERIES, start=start)
            targets.append(batch.query_targets.double().numpy().ravel())
            for n in lengths:
                values[n].append(self._read(batch.prefix(n)).ravel())
        truth = np.concatenate(targets)
        self.curves = {n: _conditional_mean(np.concatenate(parts), truth) for n, parts in values.items()}

    @property
    def name(self) -> str:
        return "oracle: gamma told, best fixed head"

    def predict(self, prompts: Prompts) -> Tensor:
        """Predict the conditional mean given ``<S_1, x>`` at the queries, ``(B, Q)``; zero at N = 0."""
        if prompts.num_examples == 0:
            return torch.zeros(prompts.queries.shape[:2], dtype=prompts.inputs.dtype)
        nearest = min(self.curves, key=lambda n: abs(np.log(n / prompts.num_examples)))
        centres, means = self.curves[nearest]
        return torch.from_numpy(np.interp(self._read(prompts), centres, means)).to(prompts.inputs.dtype)

    @torch.no_grad()
    def _read(self, prompts: Prompts) -> np.ndarray:
        direction = self.model.features(prompts).degree1.double().cpu()[:, self.support]
        queries = prompts.queries.double().cpu()[:, :, self.support]
        return torch.einsum("bqd,bd->bq", queries, direction).numpy()


def _conditional_mean(values: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of value and target in bins of equal mass, in increasing order of value."""
    order = np.argsort(values)
    centres = [part.mean() for part in np.array_split(values[order], _BINS)]
    means = [part.mean() for part in np.array_split(targets[order], _BINS)]
    return np.array(centres), np.array(means)
