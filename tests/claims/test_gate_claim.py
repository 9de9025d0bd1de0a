"""The verdict on the paper's claim follows the numbers, and is only given where the paper claims something."""

import pandas as pd
import pytest

from iclab.claims.claim import ClaimResult
from iclab.claims.oh2025 import GATE, GATE_CAN_HELP, TWINS
from iclab.claims.rules import overall
from iclab.results.grid_points import GridPoint
from iclab.studies.error.comparisons import Comparison
from iclab.studies.error.config import ErrorConfig
from iclab.studies.error.gate_claim import gate_claim


def _row(value: float, learner: str, margin: float = 0.05, seeds: int = 5) -> pd.Series:
    return pd.Series(
        {
            "learner": learner,
            "value": value,
            "low": value - margin,
            "high": value + margin,
            "num_seeds": seeds,
            "num_prompts": 64,
            "interval": "bootstrap" if seeds >= 5 else "range",
            "level": 0.95,
        }
    )


def _learner(**changes: object) -> dict:
    section = ErrorConfig().learners["mamba"].model_dump(mode="json") | {"label": ""}
    return section | changes


def _judged(
    gated: float,
    ungated: float,
    link: object = "he3",
    title: str = "",
    zero: float | None = 1.0,
    seeds: int = 5,
    model: dict | None = None,
    rival: dict | None = None,
) -> ClaimResult:
    learners = {"model": _learner(**model or {}), "rival": _learner(role="ablation", **rival or {"gate": "linear"})}
    point = GridPoint(title, {"r": title}, pd.DataFrame(), {"prompts": {"link": link}, "learners": learners})
    rows = _row(gated, "model", seeds=seeds), _row(ungated, "rival", seeds=seeds)
    found = gate_claim(Comparison(point, "rival", 256, *rows, gap=None, zero=zero))  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("gated", "ungated", "verdict", "decisive"),
    [
        (0.4, 1.0, "supported", 1.0),
        (1.0, 1.0, "contradicted", 1.0),
        (0.4, 0.4, "contradicted", 0.4),
        (0.88, 1.0, "undecided", 0.88),
        (0.4, 0.92, "undecided", 0.92),
    ],
)
def test_verdict_of_one_grid_point(gated: float, ungated: float, verdict: str, decisive: float) -> None:
    found = _judged(gated, ungated)
    assert (found.claim, found.verdict) == (GATE, verdict)
    assert [e.value for e in found.estimates] == [gated, ungated]
    assert found.estimate is not None
    assert found.estimate.value == decisive
    assert (found.seeds, found.prompts) == (5, 64)
    assert "At N = 256." in found.remarks


def test_the_threshold_follows_the_error_of_predicting_zero() -> None:
    """On uniform inputs predicting zero may have error 0.4; a model at 0.4 has then learned nothing."""
    found = _judged(0.42, 0.42, zero=0.4)
    assert found.verdict == "contradicted"
    assert [e.threshold for e in found.estimates] == pytest.approx([0.36, 0.36])
    assert "Predicting zero gives 0.4." in found.remarks


def test_grid_points_are_judged_one_by_one_and_only_unanimity_decides() -> None:
    found = [_judged(0.4, 1.0, title="r = 2"), _judged(1.0, 1.0, title="r = 8")]
    assert {result.at: result.verdict for result in found} == {"r = 2": "supported", "r = 8": "contradicted"}
    assert overall(found) == "undecided"
    assert found[0].settings == {"r": "r = 2"}


def test_few_seeds_decide_nothing() -> None:
    found = _judged(0.4, 1.0, seeds=4)
    assert (found.verdict, found.reason) == ("undecided", "few seeds")
    assert found.size_that_could_decide is not None
    assert found.size_that_could_decide.seeds == 5


def test_without_the_error_of_predicting_zero_nothing_is_decided() -> None:
    found = _judged(0.4, 1.0, zero=None)
    assert (found.verdict, found.reason) == ("undecided", "not measured")


@pytest.mark.parametrize("link", ["he2", "tanh", [0, 1], "z2exp"])
def test_nothing_is_claimed_where_the_exponents_are_equal(link: object) -> None:
    found = _judged(0.4, 1.0, link)
    assert (found.verdict, found.condition) == ("not applicable", GATE_CAN_HELP)


@pytest.mark.parametrize(
    ("model", "rival", "why"),
    [
        ({}, {"gate": "linear"}, ""),
        ({"rho": 0.3, "b": -5.0}, {"gate": "linear", "rho": 0.7}, ""),
        ({"gate": "linear"}, {"gate": "linear"}, "more than the gate: the first model has none"),
        ({}, {"gate": "linear", "embedding": "identity"}, "embedding"),
        ({}, {"gate": "linear", "width": 64, "clip": 3.0}, "clip, width"),
        ({}, {"gate": "linear", "pretraining": {"kind": "two_stage", "num_examples": 4}}, "num_examples, stage1_tasks"),
    ],
)
def test_only_models_that_differ_in_the_gate_alone_are_twins(model: dict, rival: dict, why: str) -> None:
    found = _judged(0.4, 1.0, model=model, rival=rival)
    assert (found.verdict, found.condition) == (("not applicable", TWINS) if why else ("supported", ""))
    assert any(f"They differ in {why}" in remark for remark in found.remarks) == bool(why)


def test_other_rivals_are_no_twins() -> None:
    learners = {"model": _learner(), "rival": {"kind": "kernel_ridge", "role": "baseline", "label": ""}}
    point = GridPoint("", {}, pd.DataFrame(), {"prompts": {"link": "he3"}, "learners": learners})
    pair = Comparison(point, "rival", 256, _row(0.4, "model"), _row(1.0, "rival"), None, 1.0)  # type: ignore[arg-type]
    assert gate_claim(pair) is None
