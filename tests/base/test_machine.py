"""Rates of this machine: measured once, kept where the user can write, and never needed by a result."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from iclab import machine
from iclab.machine import REFERENCE, Rates, cache_file, machine_rates
from iclab.machine import measure as measuring

FOUND = Rates(1e9, 2e9, 3e9, 4e9)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    machine_rates.cache_clear()
    yield tmp_path / "cache"
    machine_rates.cache_clear()


def count_measurements(monkeypatch: pytest.MonkeyPatch, output: str) -> list[list[str]]:
    """Stand in for the process that measures."""
    calls: list[list[str]] = []

    def answer(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, 0, output, "")

    monkeypatch.setattr(machine.subprocess, "run", answer)
    return calls


def test_measured_once_for_all_processes(cache: Path, monkeypatch: pytest.MonkeyPatch):
    calls = count_measurements(monkeypatch, json.dumps(asdict(FOUND)))
    assert machine_rates() == machine_rates() == FOUND
    machine_rates.cache_clear()  # as another process has it
    assert machine_rates() == FOUND
    assert len(calls) == 1
    assert cache_file().parent == cache / "iclab"
    assert json.loads(cache_file().read_text()) == asdict(FOUND)


def test_kept_for_one_processor_and_one_torch(cache: Path, monkeypatch: pytest.MonkeyPatch):
    here = cache_file()
    monkeypatch.setattr(machine, "processor", lambda: "another")
    elsewhere = cache_file()
    monkeypatch.setattr(machine, "version", lambda _: "9.9")
    assert len({here, elsewhere, cache_file()}) == 3


@pytest.mark.parametrize("content", ["", "{", "[]", '{"operations": 1}', '{"operations": -1, "bytes": 1}', "\xff"])
def test_a_broken_file_is_measured_anew(cache: Path, monkeypatch: pytest.MonkeyPatch, content: str):
    calls = count_measurements(monkeypatch, json.dumps(asdict(FOUND)))
    cache_file().parent.mkdir(parents=True)
    cache_file().write_bytes(content.encode("latin-1"))
    assert machine_rates() == FOUND
    assert len(calls) == 1


def test_a_cache_that_cannot_be_written_is_no_error(cache: Path, monkeypatch: pytest.MonkeyPatch):
    calls = count_measurements(monkeypatch, json.dumps(asdict(FOUND)))
    cache.write_text("a file where the folder would be")
    assert machine_rates() == FOUND
    machine_rates.cache_clear()
    assert machine_rates() == FOUND
    assert len(calls) == 2


def test_where_nothing_can_be_measured_rates_are_assumed(cache: Path, monkeypatch: pytest.MonkeyPatch):
    count_measurements(monkeypatch, "no numbers")
    assert machine_rates() == REFERENCE
    assert not cache_file().exists()


def test_the_measurement_itself(monkeypatch: pytest.MonkeyPatch):
    """In a process of its own, within three orders of magnitude of a core of 2023, and torch's threads as before."""
    done = subprocess.run([sys.executable, "-m", "iclab.machine.measure"], capture_output=True, text=True, timeout=120)
    found, reference = json.loads(done.stdout), asdict(REFERENCE)
    assert found.keys() == reference.keys()
    assert all(1e-3 < found[name] / reference[name] < 1e3 for name in found)
    monkeypatch.setattr(measuring, "_REPEATS", 1)
    threads = torch.get_num_threads()
    measuring.measure()
    assert torch.get_num_threads() == threads


def test_showing_an_experiment_loads_no_torch_even_where_rates_are_measured(tmp_path: Path):
    code = (
        "import sys\nfrom iclab.cli.main import main\nassert main(['show', 'oh2025/error']) == 0\n"
        "assert 'torch' not in sys.modules"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("iclab/rates-*.json"))) == 1
