"""Costs: counted work at given rates, forecasts of memory and disk, and results that know nothing of them."""

import math
from pathlib import Path
from typing import Any

import pytest

from iclab.experiments import cost as costs
from iclab.experiments.cost import Cost, Work
from iclab.experiments.kind import Config, ExperimentKind, total_cost
from iclab.experiments.registry import load_kind
from iclab.experiments.resolved import resolve
from iclab.experiments.sections.single_index import sampling_seconds
from iclab.machine import Rates
from iclab.memory import check_memory
from iclab.runs.run import run_experiment

SLOW, FAST = Rates(1e9, 1e8, 1e6, 1e3), Rates(2e9, 2e8, 2e6, 2e3)


def test_work_is_counted_and_takes_its_time():
    work = 2 * Work(operations=1e9, bytes=1e8) + Work(numbers=1e6, calls=1e3)
    assert work == Work(2e9, 2e8, 1e6, 1e3)
    assert work.seconds(SLOW) == pytest.approx(2 + 2 + 1 + 1)
    assert work.seconds(FAST) == pytest.approx(3)


def test_drawing_prompts_counts_numbers_and_products(monkeypatch: pytest.MonkeyPatch):
    """Of each example, d coordinates and a constant, and a multiplication and an addition for each entry of d x d."""
    monkeypatch.setattr(costs, "machine_rates", lambda: Rates(1.0, math.inf, math.inf, math.inf))
    assert sampling_seconds(3, 5, 16) == pytest.approx(3 * 5 * 2 * 16**2)
    monkeypatch.setattr(costs, "machine_rates", lambda: Rates(math.inf, math.inf, 1.0, math.inf))
    assert sampling_seconds(3, 5, 1016) - sampling_seconds(3, 5, 16) == pytest.approx(3 * 5 * 1000)


@pytest.mark.parametrize("name", ["oh2025/error", "oh2025/gate-ablation", "oh2025/support", "li2025/mitigation"])
def test_a_machine_of_twice_the_speed_takes_half_the_time(name: str, monkeypatch: pytest.MonkeyPatch):
    found = []
    for rates in (SLOW, FAST):
        monkeypatch.setattr(costs, "machine_rates", lambda rates=rates: rates)
        found.append(resolve(name, check=False).seconds)
    assert found[0] / found[1] == pytest.approx(2, rel=0.01)


def test_costs_add_up():
    one, two = Cost(1.0, 2.0, 3e9, 4e6), Cost(2.0, 0.0, 1e9, 1e6)
    assert one + two == Cost(3.0, 2.0, 3e9, 5e6)  # memory is of the largest: cells run one after another
    unknown = one + Cost(None, 0.0, None, None)
    assert (unknown.seconds, unknown.memory, unknown.disk) == (None, None, None)


class Own(Config):
    seed: int = 0


def test_the_memory_of_a_kind_is_the_largest_that_it_checks():
    def check(_: Any) -> None:
        check_memory("a", 3e6)
        check_memory("b", 1e6)

    def make(**options: Any) -> Cost:
        return ExperimentKind(Own, lambda _: [], lambda _: 1.0, "a:b", **options).cost(Own())

    libraries = make(check=check, memory=lambda _: 0.0).memory
    assert libraries is not None
    assert make(check=check).memory == libraries + 3e6
    assert make(check=check, memory=lambda _: 7e6).memory == libraries + 7e6
    assert make() == Cost(1.0, 0.0, None, None)
    assert make(disk=lambda _: {}["no"]).disk is None


@pytest.mark.parametrize("name", ["oh2025/error", "oh2025/alignment", "oh2025/gate-ablation", "li2025/attack"])
def test_memory_and_disk_of_the_catalogue_are_known(name: str):
    resolved = resolve(name)
    found = total_cost(resolved.kind, [resolved.cells[0].config])
    assert found.memory is not None
    assert found.disk is not None
    assert 1e8 < found.memory < 1e11
    assert 1e4 < found.disk < 1e10


def test_the_disk_of_a_run_is_forecast_to_a_factor(tmp_path: Path):
    arguments = ["seed=0", "num_prompts=2048", "num_examples=[4,8,16,32]", "prompts.ambient_dim=8", "exact_to=64"]
    resolved = resolve("oh2025/alignment", arguments)
    outcome = run_experiment(resolved, tmp_path / "run", engine="inline", quiet=True)
    written = sum(file.stat().st_size for file in (outcome.folder / "cells").rglob("*") if file.is_file())
    forecast = total_cost(resolved.kind, [cell.config for cell in resolved.cells]).disk
    assert forecast is not None
    assert 0.5 < forecast / written < 2


def test_no_cell_asks_for_the_rates(monkeypatch: pytest.MonkeyPatch):
    def refuse() -> Rates:
        raise AssertionError("a result would depend on the speed of this machine")

    kind = load_kind("support")
    config = kind.config.model_validate(
        {"prompts": {"ambient_dim": 4}, "num_examples": 8, "stage1_tasks": 8, "width": 8}
    )
    monkeypatch.setattr(costs, "machine_rates", refuse)
    assert kind.run_cell(config)
    assert kind.forecast(config) is None
