"""Attacks on one model as measurements: errors by attack and position, and what the worst outliers look like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from iclab.evaluation import Measurement, WorstOutliers, random_outliers, worst_outliers

if TYPE_CHECKING:
    from torch import Tensor

    from iclab.models import TokenModel
    from iclab.prompts import OutlierClassification, OutlierPrompts, Stream
    from iclab.studies.outliers.attack.config import OutlierAttackConfig


class Attacks:
    """One model, its prompts, and everything that is tried on them.

    Measurements have the key ``size``. ``error`` has the keys ``attack`` and ``point``, ``random`` (the mean over all
    examples of the context) or ``worst`` (the adversary chooses); ``error_at`` is the error of the gradient search by
    ``distance`` of the example from the query; ``attacked_margin`` is the margin ``z F`` at the worst position by
    ``attack``, for ``none`` that of the prompt as it is; ``search_gain`` is the margin that ``search`` leaves less that
    of the gradient search on the same prompt; ``share`` is the part of ``|delta|^2`` of the worst outliers in each
    ``direction``; ``cosine`` is that of their ``delta`` with the sum of the outlier patterns; ``distance`` is that of
    the worst position.
    """

    def __init__(
        self,
        config: OutlierAttackConfig,
        name: str,
        model: TokenModel,
        distribution: OutlierClassification,
        prompts: OutlierPrompts,
        stream: Stream,
    ) -> None:
        self._config, self._name, self._distribution = config, name, distribution
        self._model, self._prompts, self._stream = model.requires_grad_(False), prompts, stream
        self._clean = model.predict(prompts)[:, 0] * prompts.query_targets[:, 0]

    def measurements(self, size: float) -> Iterator[Measurement]:
        """Of outliers up to ``size`` lengths of an outlier pattern."""
        radius = size * float(self._distribution.outlier_patterns[0].norm())
        found = self._attacks(radius)
        yield self._of_prompts("error", _wrong(self._clean), {"size": size, "attack": "none", "position": "random"})
        yield self._of_prompts("attacked_margin", self._clean, {"size": size, "attack": "none"})
        for attack, worst in found.items():
            keys: dict[str, str | int | float] = {"size": size, "attack": attack}
            yield self._of_prompts("error", _wrong(worst.margins).mean(0), {**keys, "position": "random"})
            yield self._of_prompts("error", _wrong(worst.worst_margin), {**keys, "position": "worst"})
            yield self._of_prompts("attacked_margin", worst.worst_margin, keys)
        worst = found["gradient"]
        gain = found["search"].worst_margin.double() - worst.worst_margin.double()
        yield self._of_prompts("search_gain", gain, {"size": size})
        length = self._prompts.num_examples
        for position, margins in zip(worst.positions.tolist(), worst.margins, strict=True):
            yield self._of_prompts("error_at", _wrong(margins), {"size": size, "distance": length - position})
        distances = (length - worst.positions[worst.worst_position]).double()
        yield self._of_prompts("distance", distances, {"size": size})
        yield from self._directions(worst.worst_change.double(), size)

    def _attacks(self, radius: float) -> dict[str, WorstOutliers]:
        """``label``: the label alone, nothing added; ``random``: a uniform direction; ``training``: that of a training
        outlier; ``search``: the worst of many random directions; ``gradient``: the gradient search."""
        config, model, prompts = self._config, self._model, self._prompts
        rule: dict[str, Any] = {"label_rule": config.test.label_rule, "target_label": config.test.target_label}
        given = self._distribution.outlier_directions
        found = {"label": worst_outliers(model, prompts, radius, stream=self._stream, steps=0, restarts=1, **rule)}
        for name, draws, directions in (("random", 1, None), ("training", 1, given), ("search", config.draws, None)):
            found[name] = random_outliers(
                model, prompts, radius, stream=self._stream, draws=draws, directions=directions, **rule
            )
        search = {"steps": config.steps, "restarts": config.restarts}
        found["gradient"] = worst_outliers(model, prompts, radius, stream=self._stream, **search, **rule)
        return found

    def _directions(self, changes: Tensor, size: float) -> Iterator[Measurement]:
        """In which directions the worst outliers point."""
        distribution, prompts = self._distribution, self._prompts
        own = prompts.patterns[:, prompts.num_examples]
        other = torch.where(own == prompts.tasks[:, 0], prompts.tasks[:, 1], prompts.tasks[:, 0])
        relevant = _along(changes, distribution.relevant_patterns)
        rows = torch.arange(len(changes))
        parts = {
            "query's pattern": relevant[rows, own],
            "task's other pattern": relevant[rows, other],
            "other relevant patterns": relevant.sum(1) - relevant[rows, own] - relevant[rows, other],
            "irrelevant patterns": _along(changes, distribution.irrelevant_patterns).sum(1),
            "outlier patterns": _along(changes, distribution.outlier_patterns).sum(1),
        }
        whole = (changes**2).sum(1)
        parts["orthogonal to all"] = (whole - torch.stack(list(parts.values())).sum(0)).clamp(min=0)
        known = whole > 0
        for direction, part in parts.items():
            share = torch.where(known, part / whole.clamp(min=1e-300), 0.0)
            yield self._of_prompts("share", share, {"size": size, "direction": direction})
        axis = distribution.outlier_patterns.sum(0)
        cosine = torch.where(known, changes @ (axis / axis.norm()) / whole.sqrt().clamp(min=1e-300), 0.0)
        yield self._of_prompts("cosine", cosine, {"size": size})

    def _of_prompts(self, metric: str, values: Tensor, keys: dict[str, str | int | float]) -> Measurement:
        return Measurement(self._name, metric, np.asarray(values.double().numpy())[None], keys=keys)


def _wrong(margins: Tensor) -> Tensor:
    return (margins <= 0).double()


def _along(changes: Tensor, patterns: Tensor) -> Tensor:
    """``(B, M)``: squared parts along each of the orthogonal ``(M, d)`` patterns."""
    return (changes @ (patterns / patterns.norm(dim=1, keepdim=True)).T) ** 2
