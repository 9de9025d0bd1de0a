"""SIGTERM, SIGHUP and an impatient Ctrl-C end a run like one Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iclab.runs.signals import Stopped, stoppable

COIN = str(Path(__file__).parents[1] / "kinds" / "coin.yaml")


def start(out: Path, *engine: str, ignored: tuple[signal.Signals, ...] = ()) -> subprocess.Popen[str]:
    def prepare() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    arguments = [COIN, "seed=0..3", "coin.bias=0.5", "seconds=0.4", f"log={out.with_name('log')}", "--out", str(out)]
    return subprocess.Popen(
        [sys.executable, "-m", "iclab", "run", *arguments, *engine, "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=prepare,
    )


def wait_for_a_cell(out: Path) -> None:
    end = time.monotonic() + 60
    while not list(out.glob("cells/*/cell.json")):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def workers(out: Path) -> set[int]:
    return {int(line.split()[2]) for line in out.with_name("log").read_text().splitlines()}


@pytest.mark.parametrize("engine", [("--engine", "inline"), ("--engine", "local", "--workers", "1")])
@pytest.mark.parametrize(
    ("number", "times", "code", "word"),
    [
        (signal.SIGTERM, 1, 143, "terminated"),
        (signal.SIGHUP, 1, 129, "terminated"),
        (signal.SIGINT, 3, 130, "interrupted"),
    ],
)
def test_signals_end_a_run_with_one_line(tmp_path, engine, number, times, code, word):
    out = tmp_path / "run"
    process = start(out, *engine)
    wait_for_a_cell(out)
    for _ in range(times):
        # To the whole group, as a terminal or a scheduler does.
        os.killpg(process.pid, number)
        time.sleep(0.002)
    _, err = process.communicate(timeout=30)
    done = len(list(out.glob("cells/*/cell.json")))
    assert process.returncode == code
    assert err == f"{word}: {done} of 4 cells are finished; the same command continues\n"
    assert not list(out.glob("cells/*/error.txt"))
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers(out))
    assert '"interrupted": true' in (out / "environment.json").read_text()


def test_ignored_signals_stay_ignored(tmp_path):
    """As under ``nohup``, and in the background jobs of a shell."""
    out = tmp_path / "run"
    process = start(out, "--engine", "inline", ignored=(signal.SIGHUP, signal.SIGINT))
    wait_for_a_cell(out)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(list(out.glob("cells/*/cell.json"))) == 4


def test_handlers_are_given_back_and_impatience_is_ignored():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with stoppable() as stopping:
            with stoppable() as inner:
                assert inner is stopping
            with pytest.raises(Stopped) as caught:
                os.kill(os.getpid(), signal.SIGTERM)
            assert caught.value.number == signal.SIGTERM
            os.kill(os.getpid(), signal.SIGINT)
            # What a cell has caught is raised again.
            with pytest.raises(Stopped):
                stopping.check()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before[0])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_a_signal_inside_one_long_call_is_answered(tmp_path):
    """A call of a library that never returns to Python, here a key derivation of many minutes."""
    (tmp_path / "busy.py").write_text(
        "import hashlib\nfrom iclab.experiments.kind import Config, ExperimentKind\n"
        "class Seeded(Config):\n    seed: int = 0\n"
        "def check(config):\n"
        "    print('checking', flush=True)\n"
        "    hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)\n"
        "KIND = ExperimentKind(Seeded, lambda _: [], lambda _: 0.0, lambda _: None, check)\n"
    )
    (tmp_path / "busy.yaml").write_text("{title: T, question: Q, kind: 'busy:KIND'}")
    command = [sys.executable, "-m", "iclab", "run", "busy.yaml", "--out", "run"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "checking\n"
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, error) == (143, "terminated\n")
    assert not (tmp_path / "run").exists()
