"""The verdict on the paper's claim follows the numbers, and is only given where the paper claims something."""

import re

import pandas as pd
import pytest

from iclab.results.grid_points import GridPoint
from iclab.studies.error.comparisons import Comparison, twins_of
from iclab.studies.error.config import ErrorConfig
from iclab.studies.error.gate_claim import Twins, gate_findings


def _row(value: float, margin: float = 0.05) -> pd.Series:
    return pd.Series(
        {
            "value": value,
            "low": value - margin,
            "high": value + margin,
            "num_seeds": 5,
            "num_prompts": 64,
            "interval": "bootstrap",
        }
    )


def _twins(gated: float, ungated: float, link: object = "he3", title: str = "", zero: float = 1.0) -> Twins:
    return Twins(title, link, 256, _row(gated), _row(ungated), zero)


@pytest.mark.parametrize(
    ("gated", "ungated", "verdict"),
    [
        (0.4, 1.0, "agrees"),
        (1.0, 1.0, "disagrees"),
        (0.4, 0.4, "disagrees"),
        (0.88, 1.0, "undecided"),
        (0.4, 0.92, "undecided"),
    ],
)
def test_verdict_of_one_place(gated: float, ungated: float, verdict: str) -> None:
    (finding,) = gate_findings([_twins(gated, ungated)])
    assert finding.verdict == verdict
    assert "at N = 256" in finding.text
    assert "5 seeds, 64 prompts each" in finding.text


def test_the_threshold_follows_the_error_of_predicting_zero() -> None:
    """On uniform inputs predicting zero may have error 0.4; a model at 0.4 has then learned nothing."""
    (finding,) = gate_findings([_twins(0.42, 0.42, zero=0.4)])
    assert finding.verdict == "disagrees"
    assert "predicting zero gives 0.4" in finding.text


def test_places_are_counted_and_only_unanimity_decides() -> None:
    (finding,) = gate_findings([_twins(0.4, 1.0, title="r = 2"), _twins(1.0, 1.0, title="r = 8")])
    assert finding.verdict == "undecided"
    assert "holds at 1 of 2 places and fails at 1" in finding.text
    assert "r = 8: 1 (0.95 to 1.05) against 1 (0.95 to 1.05)" in finding.text


@pytest.mark.parametrize("link", ["he2", "tanh", [0, 1], "z2exp"])
def test_nothing_is_claimed_where_the_exponents_are_equal(link: object) -> None:
    (finding,) = gate_findings([_twins(0.4, 1.0, link)])
    assert finding.verdict == "information"
    assert "ge = ie" in finding.text


def test_no_twins_no_finding() -> None:
    assert gate_findings([]) == []


def _learner(**changes: object) -> dict:
    section = ErrorConfig().learners["mamba"].model_dump(mode="json") | {"label": ""}
    return section | changes


@pytest.mark.parametrize(
    ("model", "rival", "why"),
    [
        ({}, {"gate": "linear"}, ""),
        ({"rho": 0.3, "b": -5.0}, {"gate": "linear", "rho": 0.7}, ""),
        ({"gate": "linear"}, {"gate": "linear"}, "the first model has none"),
        ({}, {"gate": "linear", "embedding": "identity"}, "differ in embedding"),
        ({}, {"gate": "linear", "width": 64, "clip": 3.0}, "differ in clip, width|differ in width, clip"),
        ({}, {"gate": "linear", "pretraining": {"kind": "two_stage", "num_examples": 4}}, "num_examples, stage1_tasks"),
    ],
)
def test_only_models_that_differ_in_the_gate_alone_are_twins(model: dict, rival: dict, why: str) -> None:
    config = {
        "prompts": {"link": "he3"},
        "learners": {"model": _learner(**model), "rival": _learner(role="ablation", **rival)},
    }
    point = GridPoint("r = 2", {}, pd.DataFrame(), config)
    rows = [_row(0.4).copy(), _row(1.0).copy()]
    for row, name in zip(rows, ("model", "rival"), strict=True):
        row["learner"] = name
    comparison = Comparison(point, "rival", 256, *rows, gap=None, zero=1.0)  # type: ignore[arg-type]
    twins, findings = twins_of([comparison])
    if why:
        assert twins == []
        assert [f.verdict for f in findings] == ["information"]
        assert re.search(why, findings[0].text)
    else:
        assert len(twins) == 1
        assert findings == []
