"""The one-layer Mamba's fast forms beside the obvious ones, in the same run."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable

import torch

from iclab.models import OneLayerMamba, embed
from iclab.parallel import map_in_order
from iclab.pretraining import gamma_gradient
from iclab.prompts import CHUNK, SingleIndex, Stream


def run() -> list[dict[str, object]]:
    """Rows of `case, ours_ms, peer, peer_ms, ratio`, medians of paired repeats; the first pair is not counted."""
    return [_state_against_embedding(), _stage_one_against_drawing(), _prefixes_against_loop()]


def _paired(ours: Callable[[], object], peer: Callable[[], object], repeats: int) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats + 1):
        for function, record in ((ours, times[0]), (peer, times[1])):
            gc.collect()
            start = time.perf_counter()
            function()
            if repeat:
                record.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[0]), statistics.median(times[1])


def _row(case: str, peer: str, ours_ms: float, peer_ms: float, **more: object) -> dict[str, object]:
    return {"case": case, "ours_ms": ours_ms, "peer": peer, "peer_ms": peer_ms, "ratio": peer_ms / ours_ms, **more}


def _state_against_embedding() -> dict[str, object]:
    prompts = SingleIndex(32, 2, "he3", 0.1).sample(Stream(0).child("bench"), 64, 1024, 1)
    model = OneLayerMamba(32, 8)

    def built() -> None:
        with torch.no_grad():
            weights = torch.exp(model.gates(prompts)) * prompts.example_labels
            torch.einsum("bn,bnp->bp", weights, embed(prompts.examples))

    def fast() -> None:
        with torch.no_grad():
            model.features(prompts)

    ours, peer = _paired(fast, built, 9)
    return _row("state S of 64 prompts, d=32, N=1024", "phi built for every token", ours, peer)


def _stage_one_against_drawing() -> dict[str, object]:
    dim, length, tasks = 32, 1024, 20_000
    prompts = SingleIndex(dim, 2, "he3", 0.1)
    model = OneLayerMamba(dim, 512)
    model.draw_head(Stream(0).child("head0"))
    with torch.no_grad():
        model.a2.fill_(1 / model.width)
    stream = Stream(0).child("stage1")

    def draw() -> None:
        def one(chunk: int) -> None:
            torch.empty(CHUNK, length + 1, dim).normal_(generator=stream.at(chunk))

        for _ in map_in_order(one, tasks // CHUNK):
            pass

    ours, peer = _paired(lambda: gamma_gradient(model, prompts, stream, tasks, length), draw, 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return _row(
        "Stage I, d=32, N_pt=1024, T1=20,000", "drawing its Gaussian inputs alone", ours, peer,
        note=f"ours / drawing = {ours / peer:.2f} (target: at most 2); peak of the whole process {peak:.0f} MB",
    )  # fmt: skip


def _prefixes_against_loop() -> dict[str, object]:
    prompts = SingleIndex(16, 2, "he3", 0.1).sample(Stream(0).child("bench"), 16, 256, 1)
    model = OneLayerMamba(16, 64)

    def loop() -> None:
        for n in range(256):
            single = type(prompts)(prompts.inputs[:, : n + 1], prompts.labels[:, : n + 1], n)
            model.predict(single)

    ours, peer = _paired(lambda: model.predict_prefixes(prompts), loop, 5)
    return _row("all prefixes of 16 prompts, d=16, N=256", "predict called on each prefix", ours, peer)
