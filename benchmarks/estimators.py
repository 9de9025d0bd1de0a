"""Estimators against a scikit-learn loop over prompts and prefixes, the way in which baselines are usually computed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from sklearn import kernel_ridge, linear_model

from iclab.estimators import Estimator, KernelRidge, Ridge
from iclab.prompts import Prompts, SingleIndex, Stream

PROMPTS, EXAMPLES, DIM = 64, 64, 8
TIMED = 4
"""Prompts that the loop is timed on; its time is scaled by ``PROMPTS / TIMED``, for it takes prompts one by one."""
REPEATS = 5


def run() -> list[dict]:
    """Rows of case, ours_ms, peer, peer_ms, ratio: medians of paired repeats, the ratio being the median of ratios."""
    prompts = SingleIndex(DIM, DIM, "he3", noise=0.1).sample(
        Stream(0).child("benchmark"), PROMPTS, EXAMPLES, dtype=torch.float64
    )
    gamma = 1 / (2 * DIM)
    return [
        _case(
            KernelRidge("rbf", 1e-2),
            lambda: kernel_ridge.KernelRidge(alpha=1e-2, kernel="rbf", gamma=gamma),
            prompts,
        ),
        _case(Ridge(0.5), lambda: linear_model.Ridge(alpha=0.5, fit_intercept=False), prompts),
    ]


def _case(learner: Estimator, make_peer: Callable, prompts: Prompts) -> dict:
    # Results are compared before they are timed: a fast wrong answer is no result.
    torch.testing.assert_close(
        learner.predict_prefixes(prompts)[:TIMED], _loop(make_peer, prompts), rtol=1e-8, atol=1e-8
    )
    ours, peer = [], []
    for _ in range(REPEATS):
        ours.append(_milliseconds(lambda: learner.predict_prefixes(prompts)))
        peer.append(_milliseconds(lambda: _loop(make_peer, prompts)) * PROMPTS / TIMED)
    return {
        "case": f"{learner.name}: all prefixes of {PROMPTS} prompts, N={EXAMPLES}, d={DIM}",
        "ours_ms": statistics.median(ours),
        "peer": f"scikit-learn loop (timed on {TIMED} of {PROMPTS} prompts, scaled)",
        "peer_ms": statistics.median(peer),
        "ratio": statistics.median(theirs / mine for theirs, mine in zip(peer, ours, strict=True)),
    }


def _loop(make_peer: Callable, prompts: Prompts) -> torch.Tensor:
    result = torch.zeros(TIMED, EXAMPLES, dtype=torch.float64)
    for b in range(TIMED):
        x, y = prompts.examples[b].numpy(), prompts.example_labels[b].numpy()
        for k in range(1, EXAMPLES):
            result[b, k] = float(make_peer().fit(x[:k], y[:k]).predict(x[k : k + 1])[0])
    return result


def _milliseconds(function: Callable) -> float:
    start = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - start)
