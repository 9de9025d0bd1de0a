"""What is measured on gates, against numbers that are known, and what is said where they are zero."""

import numpy as np
import pandas as pd
import pytest
import torch

from iclab.claims.claim import ClaimResult
from iclab.claims.li2025 import ALL_SEEDS, DECAY, SUPPRESSED
from iclab.results.grid_points import GridPoint
from iclab.studies.outliers.gates.measure import clean_ranks, gate_measurements
from iclab.studies.outliers.gates.report import Group, gate_claims


def test_ranks_count_clean_examples_from_the_query():
    outliers = np.array([[False, True, False, False, True], [True, True, True, True, True]])
    assert clean_ranks(outliers).tolist() == [[3, 0, 2, 1, 0], [0, 0, 0, 0, 0]]


@pytest.mark.parametrize("factor", [0.7, 0.4])
def test_a_geometric_decay_is_found_and_compared_with_the_bound(factor: float):
    generator = np.random.default_rng(0)
    outliers = generator.random((200, 14)) < 0.3
    ranks = clean_ranks(outliers)
    gates = np.where(outliers, 1e-3, 0.2 * factor ** (ranks - 1.0))
    found = list(gate_measurements("m", torch.tensor(gates[None]).log(), torch.tensor(outliers), 2.0, 6))
    value = {m.metric: m.value for m in found if m.metric not in ("gate", "ranked_gate", "mean_gate")}
    assert value["decay"] == pytest.approx(factor)
    assert value["decay_start"] == pytest.approx(0.2)
    assert value["outlier_ratio"] == pytest.approx(1e-3 / 0.2)
    assert value["over_bound"] == pytest.approx(min((2 * factor) ** j for j in range(1, 6)))
    last = next(m for m in found if m.metric == "gate" and m.keys["group"] == "clean" and m.keys["distance"] == 1)
    assert last.value == pytest.approx(0.2)  # clean and last: always the nearest
    assert last.num_prompts == int((~outliers[:, -1]).sum())


def gate_numbers(log_gates: list[float]) -> dict[str, float]:
    """Measured on eight prompts alike, the first example an outlier, the nearest clean one last."""
    values = torch.tensor(log_gates).expand(1, 8, -1)
    outliers = torch.zeros(8, len(log_gates), dtype=torch.bool)
    outliers[:, 0] = True
    found = list(gate_measurements("m", values, outliers, 2.0, 3))
    assert all(np.isfinite(m.samples).all() for m in found)
    assert sum(m.metric == "ranked_gate" for m in found) == len(log_gates) - 1
    return {m.metric: m.value for m in found if m.metric not in ("gate", "ranked_gate", "mean_gate")}


def test_gates_below_float32_are_fitted_and_those_below_float64_are_left_out():
    told = gate_numbers([-600.0, -400.0, -200.0, 0.0])  # float32 gates end at exp(-103)
    assert told["decay"] == pytest.approx(np.exp(-200))
    assert told["outlier_ratio"] == pytest.approx(np.exp(-600))
    assert told["over_bound"] == pytest.approx(4 * np.exp(-400))
    assert gate_numbers([-1.0, -900.0, -1.0, 0.0]) == pytest.approx({"outlier_ratio": np.exp(-1), "over_bound": 0.0})
    assert gate_numbers([-1.0, -1.0, -1.0, -900.0]) == {}


def gate_rows(**numbers: tuple[float, int]) -> pd.DataFrame:
    """A row for each metric: a value with a narrow interval, and its seeds."""
    return pd.DataFrame(
        [
            {"metric": metric, "value": value, "low": 0.9 * value, "high": 1.1 * value, "interval": "bootstrap",
             "num_seeds": seeds, "num_prompts": 1}
            for metric, (value, seeds) in numbers.items()
        ]
    )  # fmt: skip


def judged(rows: pd.DataFrame) -> list[ClaimResult]:
    found = gate_claims(Group(GridPoint("", {}, rows, {}), "m", 2.0, rows))
    assert [result.claim for result in found] == [SUPPRESSED, DECAY]
    return found


def test_what_gates_of_zero_leave_out_is_said():
    rows = gate_rows(mean_gate=(0.1, 5), outlier_ratio=(0.01, 5), over_bound=(0.0, 5))
    suppressed, bound = judged(rows)
    assert (suppressed.verdict, bound.verdict) == ("supported", "contradicted")
    assert any("so that no decay is fitted" in remark for remark in bound.remarks)
    rows = gate_rows(mean_gate=(0.1, 6), outlier_ratio=(0.01, 5), over_bound=(2.0, 6), decay=(0.7, 5))
    some, bound = judged(rows)
    assert (some.verdict, some.condition) == ("not applicable", ALL_SEEDS)
    assert "In 1 seed there is no such ratio." in some.remarks
    assert bound.verdict == "supported"
    assert any("q = 0.7 (0.63 to 0.77), none in 1 seed from" in remark for remark in bound.remarks)
    for nothing in judged(gate_rows(mean_gate=(0.1, 5))):
        assert (nothing.verdict, nothing.reason) == ("undecided", "not measured")
