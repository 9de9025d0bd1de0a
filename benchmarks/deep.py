"""A training step of deep models beside their peers, each in a process of its own, asked in turn.

Own processes give each its own peak of memory; asking them in turn makes repeats paired. A step is forward, backward
and Adam on ``(batch, length, width)`` tokens; the loss is a fixed random linear functional. The processes of our models
keep the memory that they free, as `iclab.pretraining.train` has it; peers run as they come, and GPT-2 of transformers
once more with that setting.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

WIDTH, DEPTH, BATCH, HEADS = 256, 2, 64, 4
OURS = ("Mamba", "GPT2")
SLOW = ("transformers Mamba", "transformers Mamba, mambapy", "mambapy")
KEPT = "transformers GPT2, memory kept"


@dataclass(frozen=True)
class Timing:
    """Median seconds of a step, and the peak of memory above that of the built model, in bytes."""

    seconds: float
    peak: int


def compare(length: int, threads: int, repeats: int, names: tuple[str, ...]) -> dict[str, Timing]:
    """All models at one length. Slow peers are asked in the first round, and again in the fifth."""
    context = multiprocessing.get_context("spawn")
    workers, ends = {}, {}
    for name in names:
        ends[name], theirs = context.Pipe()
        workers[name] = context.Process(target=_serve, args=(theirs, name, length, threads), daemon=True)
        workers[name].start()
        ends[name].recv()
    times: dict[str, list[float]] = {name: [] for name in names}
    peaks = dict.fromkeys(names, 0)
    for turn in range(repeats + 1):
        for name in names:
            if name in SLOW and turn not in (1, 5):
                continue
            ends[name].send("step")
            seconds, peaks[name] = ends[name].recv()
            if turn:
                times[name].append(seconds)
    for name in names:
        ends[name].send("stop")
        workers[name].join()
    return {name: Timing(statistics.median(times[name]), peaks[name]) for name in names}


def _serve(end: Connection, name: str, length: int, threads: int) -> None:
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    warnings.simplefilter("ignore")
    import torch

    from iclab.memory import keep_freed_memory

    if name.startswith(OURS) or name == KEPT:
        keep_freed_memory()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    step = _step(name, length)
    before = _forget_peak()
    end.send("ready")
    while end.recv() == "step":
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        end.send((seconds, _resident("VmHWM") - before))


def _forget_peak() -> int:
    """Bytes in memory now, from which the peak counts anew: importing the peers needs more than a step."""
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def _resident(which: str) -> int:
    """``VmRSS``, bytes in memory, or ``VmHWM``, their peak; Linux alone tells."""
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith(which))


def _step(name: str, length: int) -> Callable[[], None]:
    import torch

    model, forward = _model(name, length)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    tokens = torch.randn(BATCH, length, WIDTH)
    functional = torch.randn(BATCH, length, WIDTH) / WIDTH

    def step() -> None:
        optimiser.zero_grad()
        (forward(tokens) * functional).sum().backward()
        optimiser.step()

    return step


def _model(name: str, length: int):
    """The model, and what maps tokens to outputs."""
    from iclab.models import GPT2, Mamba

    match name:
        case "Mamba":
            model = Mamba(WIDTH, DEPTH)
            return model, model
        case "Mamba without the C core":
            os.environ["ICLAB_SCAN"] = "torch"  # of this process, for the norms too
            model = Mamba(WIDTH, DEPTH)
            return model, model
        case "GPT2":
            model = GPT2(WIDTH, DEPTH, heads=HEADS, max_positions=length)
            return model, model
        case "transformers GPT2" | "transformers GPT2, memory kept":
            from transformers import GPT2Config, GPT2Model

            config = GPT2Config(
                vocab_size=1, n_positions=length, n_embd=WIDTH, n_layer=DEPTH, n_head=HEADS, use_cache=False,
                resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            )  # fmt: skip
            peer = GPT2Model(config)
            return peer, lambda tokens: peer(inputs_embeds=tokens).last_hidden_state
        case "mambapy":
            from mambapy.mamba import Mamba as Peer
            from mambapy.mamba import MambaConfig as PeerConfig

            other = Peer(PeerConfig(d_model=WIDTH, n_layers=DEPTH))
            return other, other
        case _:
            from transformers import MambaConfig, MambaModel

            config = MambaConfig(
                vocab_size=1, hidden_size=WIDTH, num_hidden_layers=DEPTH, use_cache=False,
                use_mambapy=name.endswith("mambapy"),
            )  # fmt: skip
            peer = MambaModel(config)
            return peer, lambda tokens: peer(inputs_embeds=tokens).last_hidden_state


def products_alone(length: int, threads: int, repeats: int) -> float:
    """Median seconds of the matrix products of a step of our Mamba: each once forward and twice backward."""
    import torch

    torch.set_num_threads(threads)
    channels, rank, state = 2 * WIDTH, WIDTH // 16, 16
    shapes = [(WIDTH, 2 * channels), (channels, rank + 2 * state), (rank, channels), (channels, WIDTH)]
    rows = BATCH * length
    inputs = [(torch.randn(rows, i), torch.randn(o, i), torch.randn(rows, o)) for i, o in shapes]
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        for _ in range(DEPTH):
            for x, weight, gradient in inputs:
                x @ weight.T
                gradient @ weight
                gradient.T @ x
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def stream_seconds(tokens: int = 128) -> dict[str, float]:
    """Seconds a token, one prompt at a time, of ``step()`` on one thread."""
    import torch

    from iclab.models import GPT2, Mamba

    torch.set_num_threads(1)
    found = {}
    for model in (Mamba(WIDTH, DEPTH), GPT2(WIDTH, DEPTH, heads=HEADS, max_positions=tokens)):
        with torch.no_grad():
            cache, token = model.initial_cache(1), torch.randn(1, WIDTH)
            start = time.perf_counter()
            for _ in range(tokens):
                _, cache = model.step(token, cache)
        found[type(model).__name__] = (time.perf_counter() - start) / tokens
    return found


def run(lengths: tuple[int, ...] = (65, 129, 257), repeats: int = 8) -> None:
    """Print the table. Peers that need minutes for a step are measured at the shortest length alone, or with
    ``BENCH_ALL=1`` in the environment at all lengths, which takes half an hour."""
    cores = os.cpu_count() or 1
    print(f"\ntraining step: width {WIDTH}, {DEPTH} layers, batch {BATCH}; memory is the peak above the built model")
    print(f"{'threads':>7} {'L':>4}  {'model':<30} {'step':>11} {'/ transformers GPT2':>20} {'peak memory':>12}")
    for threads in sorted({1, min(2, cores)}):
        for length in lengths:
            every = length == lengths[0] or os.environ.get("BENCH_ALL", "") not in ("", "0")
            extra = ("Mamba without the C core", *SLOW) if every else ()
            found = compare(length, threads, repeats, (*OURS, "transformers GPT2", KEPT, *extra))
            unit = found["transformers GPT2"].seconds
            for name, timing in found.items():
                print(
                    f"{threads:>7} {length:>4}  {name:<30} {1e3 * timing.seconds:>8.1f} ms "
                    f"{timing.seconds / unit:>20.2f} {timing.peak / 2**20:>9.0f} MB",
                    flush=True,
                )
            alone = products_alone(length, threads, repeats)
            print(
                f"{threads:>7} {length:>4}  {'matrix products of Mamba alone':<30} {1e3 * alone:>8.1f} ms   "
                f"(a Mamba step is {found['Mamba'].seconds / alone:.2f} times as long)"
            )
    for name, seconds in stream_seconds().items():
        print(f"one prompt token by token, {name}.step(): {1e6 * seconds:.0f} us a token on one thread")


if __name__ == "__main__":
    run()
