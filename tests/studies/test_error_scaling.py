"""Exponents of error curves: curves that are at the target from the start, or never, are bounds and no data."""

from typing import Any

import pandas as pd
import pytest

from iclab.claims.claim import ClaimResult, Size
from iclab.claims.oh2025 import CONTEXT_IN_D, CONTEXT_IN_R, SHARP
from iclab.results.results import Results
from iclab.studies.error.scaling import scaling

LENGTHS = [32, 64, 128, 256, 512, 1024]


def _results(needed: dict[int, float], axis: str = "ambient_dim", seeds: int = 5, kind: str = "one_layer") -> Results:
    """Error curves ``c_x / N`` whose N at error 0.5 is ``needed[x]``, but for a per cent from seed to seed."""
    rows = [
        {"experiment": "e", "cell": f"{x}-{seed}", "learner": "Mamba", axis: x, "seed": seed, "num_examples": n,
         "metric": "squared_error", "statistic": "mean", "value": 0.5 * reach * (1 + 0.01 * seed) / n}
        for x, reach in needed.items() for seed in range(seeds) for n in LENGTHS
    ]  # fmt: skip
    learners = {"mamba": {"kind": kind, "label": "Mamba"}}
    cells = [
        {"id": f"{x}-{seed}", "config": {"prompts": {axis: x}, "learners": learners}}
        for x in needed
        for seed in range(seeds)
    ]
    experiment: dict[str, Any] = {
        "grid": {f"prompts.{axis}": list(needed), "seed": list(range(seeds))},
        "axes": {},
        "cells": cells,
    }
    table = pd.DataFrame(rows)
    return Results(experiment, {}, table, table, ())


def _read(needed: dict[int, float], axis: str = "ambient_dim", seeds: int = 5):
    (figure,), (table,), (found,) = scaling(_results(needed, axis, seeds), [axis], {"Mamba": "model"})
    assert isinstance(found, ClaimResult)
    (row,) = [row for row in table.rows if row[2] == "0.5"]
    return figure, row, found


def test_two_curves_below_the_target_from_the_start_are_no_flat_law():
    figure, row, found = _read({16: 10.0, 32: 10.0})
    assert (found.claim, found.verdict, found.reason) == (CONTEXT_IN_D, "undecided", "not measured")
    assert any("for all of 5 seeds at 0 of 2 values of d, too few for an exponent" in r for r in found.remarks)
    assert row[4:6] == ["too few points", ""]
    assert row[7] == "16: <= 32 (5 of 5 seeds); 32: <= 32 (5 of 5 seeds)"
    (curve,) = figure.panels[1].series
    assert (list(curve.y), list(curve.relations)) == ([32.0, 32.0], ["<=", "<="])


def test_two_measured_values_are_no_verdict_and_three_are_one():
    two = _read({16: 100.0, 32: 100.0})[2]
    assert (two.verdict, two.reason, two.size_that_could_decide) == ("undecided", "few values", Size(values=3))
    assert _read({16: 100.0, 32: 100.0, 64: 100.0})[2].verdict == "supported"
    steep = _read({16: 100.0, 32: 200.0, 64: 400.0})[2]
    assert (steep.verdict, steep.seeds) == ("contradicted", 5)
    assert steep.estimate is not None
    assert steep.estimate.value == pytest.approx(1.0)
    few = _read({16: 100.0, 32: 100.0, 64: 100.0}, seeds=4)[2]
    assert (few.verdict, few.reason, few.size_that_could_decide) == ("undecided", "few seeds", Size(seeds=5))


def test_the_claims_are_about_pretrained_models():
    results = _results({16: 100.0, 32: 100.0, 64: 100.0}, kind="own")
    figures, tables, claims = scaling(results, ["ambient_dim"], {"Mamba": "model"})
    assert (len(figures), len(tables), claims) == (1, 1, [])


def test_a_hidden_small_end_is_left_out_and_bounds_the_exponent():
    # N = 8, 64, 512: a law r^3 of which the first value lies below the shortest length.
    _, row, found = _read({2: 8.0, 4: 64.0, 8: 512.0}, "intrinsic_dim")
    assert str(row[4]).startswith("3 (3 to 3, seeds)")
    assert row[5] == "4, 8"
    # Through the bound 32 the slope is log(512 * 1.02 / 32) / log 4.
    assert row[6] == "2 (some crossing is a bound); over all values the slope is at least 2.01"
    assert any("Left out: 2 (some crossing is a bound)" in remark for remark in found.remarks)
    assert (found.claim, found.verdict, found.condition) == (CONTEXT_IN_R, "not applicable", SHARP)
    assert found.estimate is not None
    assert found.estimate.value == pytest.approx(3.0)


def test_a_hidden_large_end_is_left_out_and_bounds_the_exponent():
    _, row, _ = _read({2: 40.0, 4: 320.0, 8: 2560.0}, "intrinsic_dim")
    assert str(row[4]).startswith("3 (")
    assert "the slope is at least 2.32" in str(row[6])  # log(1024 / 40.8) / log 4 = 2.3247
    assert row[7] == "2: 40.8; 4: 326.4; 8: > 1024 (5 of 5 seeds)"


@pytest.mark.parametrize("seeds", [1, 5])
def test_every_crossing_is_in_the_table(seeds):
    _, row, _ = _read({2: 40.0, 4: 80.0}, "intrinsic_dim", seeds)
    assert row[7] == ("2: 40; 4: 80" if seeds == 1 else "2: 40.8; 4: 81.6")
