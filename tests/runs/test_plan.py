"""What a dry run says is what the run then does, and it writes nothing."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from iclab.cli.main import main
from iclab.errors import InputError
from iclab.experiments.kind import total_cost
from iclab.experiments.resolved import resolve
from iclab.runs import plan_run, run_experiment

COIN = str(Path(__file__).parents[1] / "kinds" / "coin.yaml")


def test_a_plan_counts_what_is_left(tmp_path: Path) -> None:
    resolved = resolve(COIN)
    run_experiment(resolve(COIN), tmp_path / "run", engine="inline", quiet=True)
    plan = plan_run(resolved, tmp_path / "run")
    assert (plan.num_cells, plan.num_finished, plan.engine, plan.workers) == (4, 4, "", 0)
    for cell in resolved.cells[:2]:
        (tmp_path / "run" / "cells" / cell.id / "cell.json").unlink()
    plan = plan_run(resolved, tmp_path / "run", engine="local", workers=2)
    assert (plan.num_finished, plan.engine, plan.workers) == (2, "local", 2)
    assert plan.cost == total_cost(resolved.kind, [cell.config for cell in resolved.cells[:2]])


def test_time_is_shared_by_workers_and_memory_is_not() -> None:
    resolved = resolve("oh2025/support", check=False)
    one, two = plan_run(resolved, engine="inline"), plan_run(resolved, engine="local", workers=2)
    assert one.seconds is not None
    assert two.seconds is not None
    assert two.seconds == pytest.approx(one.seconds / two.parallel)
    assert one.memory is not None
    assert two.memory == pytest.approx(2 * one.memory)
    assert one.cost.disk == two.cost.disk
    assert math.isfinite(one.cost.disk or math.nan)


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "run"
    assert main(["run", COIN, "seed=0,1", "--dry-run", "--engine", "inline", "--out", str(folder)]) == 0
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["folder"] == str(folder)
    assert lines["cells"] == "4, 0 of them finished"
    assert lines["engine"] == "inline, 1 worker"
    assert set(lines) == {"folder", "cells", "engine", "time", "memory", "disk"}
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_refuses_what_a_run_refuses(tmp_path: Path) -> None:
    resolved = resolve(COIN)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds files that are no run"):
        plan_run(resolved, tmp_path)
    with pytest.raises(InputError, match="unknown engine 'lokal'"):
        plan_run(resolved, engine="lokal")
    with pytest.raises(InputError, match="device"):
        plan_run(resolved, device="gpu")
