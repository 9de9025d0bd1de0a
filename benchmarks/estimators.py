"""Estimators against a scikit-learn loop over prompts and prefixes, the way in which baselines are usually computed.

The loop refits at every prefix; ours factorises once. So the cases at the queries, one fit a prompt, are given as well:
there the gain is from batching alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

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
    kernel = KernelRidge("rbf", 1e-2), lambda: kernel_ridge.KernelRidge(alpha=1e-2, kernel="rbf", gamma=gamma)
    ridge = Ridge(0.5), lambda: linear_model.Ridge(alpha=0.5, fit_intercept=False)
    return [_case(*pair, prompts, along) for along in (True, False) for pair in (kernel, ridge)]


def _case(learner: Estimator, make_peer: Callable, prompts: Prompts, along: bool) -> dict:
    """All prefixes along the prompts, or the queries from all examples."""
    predict, timed = (learner.predict_prefixes, TIMED) if along else (learner.predict, PROMPTS)
    sizes = range(1, EXAMPLES) if along else [EXAMPLES]

    def loop() -> torch.Tensor:
        return _loop(make_peer, prompts[:timed], sizes)

    # Results are compared before they are timed: a fast wrong answer is no result.
    torch.testing.assert_close(predict(prompts)[:timed, 1 if along else 0 :], loop(), rtol=1e-8, atol=1e-8)
    ours, peer = [], []
    for _ in range(REPEATS):
        ours.append(_milliseconds(lambda: predict(prompts)))
        peer.append(_milliseconds(loop) * PROMPTS / timed)
    return {
        "case": f"{learner.name}: {'all prefixes' if along else 'queries'} of {PROMPTS} prompts, N={EXAMPLES}, d={DIM}",
        "ours_ms": statistics.median(ours),
        "peer": f"scikit-learn loop (timed on {timed} of {PROMPTS} prompts{', scaled' if timed < PROMPTS else ''})",
        "peer_ms": statistics.median(peer),
        "ratio": statistics.median(theirs / mine for theirs, mine in zip(peer, ours, strict=True)),
    }


def _loop(make_peer: Callable, prompts: Prompts, sizes: Sequence[int]) -> torch.Tensor:
    """``(B, len(sizes))``: the input after the first n examples, predicted from these, by a fresh fit for each n."""
    result = torch.zeros(prompts.batch_size, len(sizes), dtype=torch.float64)
    for b in range(prompts.batch_size):
        x, y = prompts.inputs[b].numpy(), prompts.labels[b].numpy()
        for i, n in enumerate(sizes):
            result[b, i] = float(make_peer().fit(x[:n], y[:n]).predict(x[n : n + 1])[0])
    return result


def _milliseconds(function: Callable) -> float:
    start = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - start)
