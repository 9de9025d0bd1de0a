"""Steps of Mamba over steps of the linear Transformer: ``T_M / T_T = l_tr`` by arXiv 2510.00399, up to a constant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from iclab.experiments.sections.outliers import AttentionLearner
from iclab.results.wording import number

if TYPE_CHECKING:
    import pandas as pd


def step_ratios(prefix: str, level: float, rows: pd.DataFrame, learners: Mapping[str, AttentionLearner]) -> list[str]:
    """A sentence for each pair of a gated and a linear learner; ``rows`` are steps to one level against l_tr.

    Ratios are taken seed by seed, at the lengths that are ``usable`` of both: the crossing of every seed was measured.
    The others are named.
    """
    found = []
    usable = rows[rows["usable"]].set_index(["learner", "at"])["seed_values"]
    for gated, linear in _pairs(learners):
        ratios_at, left, seeds = [], [], 0
        for length in sorted(rows["at"].unique()):
            if (gated, length) not in usable.index or (linear, length) not in usable.index:
                left.append(f"{length:g}")
                continue
            ours, theirs = (np.asarray(usable[name, length], float) for name in (gated, linear))
            if ours.shape != theirs.shape:
                continue
            ratios, seeds = ours / theirs, len(ours)
            spread = f" ({number(ratios.min())} to {number(ratios.max())})" if seeds > 1 else ""
            mean = ratios.mean()
            ratios_at.append(f"{number(mean)}{spread} at l_tr = {length:g}, {number(mean / length)} times l_tr")
        if ratios_at:
            rest = f" Left out, for steps that are bounds: l_tr = {', '.join(left)}." if left else ""
            basis = f"mean, smallest and largest of {seeds} seeds" if seeds > 1 else "1 seed"
            found.append(
                f"{prefix}steps of {gated} to a loss of {number(level)} over those of {linear}: {'; '.join(ratios_at)} "
                f"({basis}). Claimed: l_tr, up to a constant.{rest}"
            )
    return found


def _pairs(learners: Mapping[str, AttentionLearner]) -> list[tuple[str, str]]:
    """Pairs of one-layer learners that share their start and training, and have one step size for all weights; other
    pairs are no test of the claim."""
    shallow = {name: learner for name, learner in learners.items() if learner.depth == 1}
    return [
        (gated, linear)
        for gated, ours in shallow.items()
        for linear, theirs in shallow.items()
        if ours.kind == "gated"
        and theirs.kind == "linear"
        and _shared(ours) == _shared(theirs)
        and ours.training.gate_learning_rate == ours.training.learning_rate
    ]


def _shared(learner: AttentionLearner) -> tuple[object, ...]:
    steps = learner.training
    return learner.start, learner.prompts, steps.learning_rate, steps.batch_size
