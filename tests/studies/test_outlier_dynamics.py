"""What is measured while attention learns from prompts with outliers, against numbers that are known."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from iclab.claims.claim import Size
from iclab.claims.li2025 import SLOPES
from iclab.claims.rules import INTERVAL, SEEDS, SLOPE
from iclab.experiments.sections.outliers import AttentionLearner, HingeTraining, OutlierPromptsSection
from iclab.models import AttentionStack, GatedLinearAttention
from iclab.prompts import OutlierClassification, Stream
from iclab.results.grid_points import GridPoint
from iclab.studies.outliers.training.claims import convergence
from iclab.studies.outliers.training.config import OutlierTrainingConfig, Vary
from iclab.studies.outliers.training.points import crossing, crossing_from, points_of
from iclab.studies.outliers.training.probe import AttentionProbe
from iclab.studies.outliers.training.step_ratios import step_ratios


def record(losses: list[float], size: int = 10, batch: int = 4):
    windows = [SimpleNamespace(step=size * (i + 1), num_prompts=size * batch, loss=v) for i, v in enumerate(losses)]
    return SimpleNamespace(windows=windows, steps=size * len(losses))


@pytest.mark.parametrize(
    ("losses", "level", "steps", "state"),
    [
        ([0.9, 0.7, 0.3], 0.5, 20.0, "measured"),  # half-way between the middles 15 and 25
        ([0.9, 0.7, 0.3], 0.7, 15.0, "measured"),
        ([0.9, 0.4, 0.8, 0.1], 0.5, 13.0, "measured"),  # the first time counts
        ([0.4, 0.3], 0.5, 5.0, "left"),  # at once: the middle of the first window
        ([0.9, 0.8], 0.5, 20.0, "right"),  # not within the steps taken
    ],
)
def test_a_level_is_crossed_between_the_middles_of_windows(losses: list[float], level: float, steps: float, state: str):
    found = crossing(record(losses), level, 4)  # type: ignore[arg-type]
    assert (found.value, found.state) == (pytest.approx(steps), state)
    # A run keeps the number and whether the level was reached, from which the state follows.
    training = HingeTraining(steps=100, log_every=10)
    assert crossing_from(found.value, float(found.state != "right"), training) == found


def test_points_vary_one_entry_at_a_time():
    vary = Vary(num_examples=[5, 40], outlier_fraction=[0.2], relevant=[4])
    config = OutlierTrainingConfig(vary=vary)
    points = points_of(config)
    section = config.learners["mamba"]
    told = [(p.prompts.relevant, p.prompts.outlier_fraction, p.learner(section).training.num_examples) for p in points]
    assert told == [(6, 0.4, 5), (6, 0.4, 40), (6, 0.2, 20), (4, 0.4, 20)]
    rates = {p.learner(section).training.learning_rate for p in points}
    assert rates == {section.training.learning_rate}
    (alone,) = points_of(OutlierTrainingConfig())
    assert alone.keys == {}


def test_attention_at_the_diagonal_start_is_known():
    """Without irrelevant patterns examples of the query's pattern have attention ``(start beta)^2``, others none."""
    distribution = OutlierClassification(8, 3, 0, 2, outlier_fraction=0.5, seed=1)
    prompts = distribution.sample(Stream(0), 32, 9, dtype=torch.float64)
    model = GatedLinearAttention(8, start=0.1, dtype=torch.float64, stream=Stream(2))
    probe = AttentionProbe("m", model, prompts, steps=7, log_every=3, probes=3)
    for step in (3, 6, 7):
        probe(SimpleNamespace(step=step))  # type: ignore[arg-type]
    frame = pd.DataFrame([{**m.keys, "metric": m.metric, "value": m.value} for m in probe.measurements])
    assert sorted(frame["step"].unique()) == [0, 3, 6, 7]
    scores = frame[(frame["metric"] == "attention") & (frame["part"] == "scores") & (frame["step"] == 0)]
    value = scores.set_index("group")["value"]
    count = float(prompts.same_pattern.double().sum(-1).mean())
    assert value["same"] == pytest.approx(0.09 * count)
    assert value["different"] == pytest.approx(0, abs=1e-12)
    shares = frame[(frame["metric"] == "same_share") & (frame["step"] == 0)]
    none = float((~prompts.same_pattern.any(-1)).double().mean())
    np.testing.assert_allclose(shares["value"], 1 - none / 2, rtol=1e-9)
    gated = frame[(frame["metric"] == "attention") & (frame["part"] == "weights") & (frame["group"] == "same")]
    assert bool((gated["value"] < value["same"]).all())


@pytest.mark.parametrize(
    ("steps", "log_every", "probes", "expected"),
    [
        (400, 400, 12, [400]),  # one window
        (5, 20, 12, [5]),  # a window that is longer than the training
        (95, 20, 12, [20, 40, 60, 80, 95]),  # more probes than windows: at the end of each
        (95, 20, 1, [95]),
        (2000, 20, 12, [160, 340, 500, 660, 840, 1000, 1160, 1340, 1500, 1660, 1840, 2000]),
    ],
)
def test_the_last_look_is_at_the_end(steps: int, log_every: int, probes: int, expected: list[int]):
    prompts = OutlierClassification(8, 3, 1, 1, seed=1).sample(Stream(0), 2, 2)
    probe = AttentionProbe("m", GatedLinearAttention(8, gated=False), prompts, steps, log_every, probes)
    for step in (min(window, steps) for window in range(log_every, steps + log_every, log_every)):
        probe(SimpleNamespace(step=step))  # type: ignore[arg-type]
    assert sorted({m.keys["step"] for m in probe.measurements}) == [0, *expected]


def test_a_stack_is_looked_at_layer_by_layer_and_ungated_ones_without_weights():
    prompts = OutlierClassification(8, 3, 1, 1, seed=1).sample(Stream(0), 8, 4)
    probe = AttentionProbe("m", AttentionStack(8, "softmax", 2), prompts, 1, 1, 1)
    frame = pd.DataFrame([{**m.keys, "metric": m.metric, "value": m.value} for m in probe.measurements])
    assert set(frame["part"]) == {"scores"}
    totals = frame[frame["metric"] == "attention"].groupby("layer")["value"].sum()
    assert list(totals.index) == [1, 2]
    np.testing.assert_allclose(totals, 1, rtol=1e-6)  # weights of a softmax
    assert set(frame[frame["metric"] == "signed_attention"]["layer"]) == {2}


ONE_STEP_SIZE = HingeTraining(learning_rate=0.02, gate_learning_rate=0.02)


def synthetic(power: float, missed: bool = False, seeds: int = 5, depth: int = 1, early: float = 0.0) -> GridPoint:
    """Mamba's steps ``100 M1^power``, but for a few per cent at the last value; ``early``: the last seed's at the
    first."""
    rows = []
    learner = AttentionLearner(depth=depth, training=ONE_STEP_SIZE)
    for m1 in (3, 6, 12):
        spread = 0.02 if m1 == 12 else 0.0
        values = [100 * m1**power * (1 + spread * (seed - (seeds - 1) / 2)) for seed in range(seeds)]
        if early and m1 == 3:
            values[-1] = early
        base = {"learner": learner.name, "axis": "relevant", "at": float(m1), "loss_level": 0.5, "num_seeds": seeds,
                "interval": "bootstrap", "level": 0.95, "num_prompts": 1}  # fmt: skip
        mean = float(np.mean(values))
        rows.append(base | {"metric": "steps_to_level", "value": mean, "low": min(values), "high": max(values),
                            "seed_values": values})  # fmt: skip
        reached = [1.0] * (seeds - 1) + [0.0 if missed and m1 == 12 else 1.0]
        rows.append(base | {"metric": "reached", "value": float(np.mean(reached)), "low": 0, "high": 1,
                            "seed_values": reached})  # fmt: skip
    config = {
        "learners": {"mamba": learner.model_dump(mode="json")},
        "prompts": OutlierPromptsSection().model_dump(mode="json"),
    }
    return GridPoint("", {}, pd.DataFrame(rows), config)


@pytest.mark.parametrize(
    ("power", "seeds", "verdict"),
    [
        (1.0, 5, "supported"),
        (0.9, 5, "supported"),
        (1.25, 5, "undecided"),
        (2.0, 5, "contradicted"),
        (1.0, 4, "undecided"),
    ],
)
def test_a_slope_is_judged_against_the_claim(power: float, seeds: int, verdict: str):
    report = convergence([synthetic(power, seeds=seeds)])
    (found,), (figure,), (slopes, steps) = report.claims, report.figures, report.tables
    assert (found.claim, found.verdict, found.seeds) == (SLOPES["gated"]["relevant"], verdict, seeds)
    assert found.estimate is not None
    assert found.estimate.value == pytest.approx(power, abs=1e-3)
    assert (found.claim.threshold, found.claim.tolerance) == (1.0, 0.25)
    assert found.rules == (SEEDS, INTERVAL, SLOPE)
    assert slopes.rows[0][4].startswith(f"{power:g} (")  # type: ignore[union-attr]
    assert len(steps.rows) == 3
    assert steps.rows[0][6] == f"{100 * 3**power * 64:.3g}"
    measured, claimed = figure.panels[0].series
    assert claimed.y[2] / claimed.y[0] == pytest.approx(4)
    assert np.prod(claimed.y) == pytest.approx(np.prod(measured.y), rel=1e-9)


def test_ratios_of_steps_are_taken_seed_by_seed():
    rows = [
        {"learner": name, "at": length, "usable": length != 5, "seed_values": values}
        for name, length, values in (
            ("M", 5.0, [100.0, 100.0]),
            ("L", 5.0, [1.0, 1.0]),
            ("M", 10.0, [100.0, 300.0]),
            ("L", 10.0, [10.0, 20.0]),
            ("M", 20.0, [100.0, 100.0]),
            ("L", 20.0, [5.0, 5.0]),
            ("M", 40.0, [1.0, 1.0]),
        )
    ]
    learners = {
        "M": AttentionLearner(training=ONE_STEP_SIZE),
        "L": AttentionLearner(kind="linear"),
        "deep": AttentionLearner(depth=2, training=ONE_STEP_SIZE),
        "fast": AttentionLearner(),
        "other start": AttentionLearner(start=0.1, training=ONE_STEP_SIZE),
    }
    (note,) = step_ratios("", 0.5, pd.DataFrame(rows), learners)
    assert ": 12.5 (10 to 15) at l_tr = 10, 1.25 times l_tr; 20 (20 to 20) at l_tr = 20, 1 times l_tr" in note
    assert "2 seeds" in note


def test_a_level_that_a_seed_missed_is_named_and_left_out():
    report = convergence([synthetic(1.0, missed=True)])
    (found,), (figure,), (slopes, steps) = report.claims, report.figures, report.tables
    assert (found.verdict, found.reason, found.size_that_could_decide) == ("undecided", "few values", Size(values=3))
    assert found.estimate is not None
    assert found.estimate.values == 2
    # A seed that needs more steps than were taken raises the mean and, at the largest value, the slope.
    assert slopes.rows[0][-2:] == [2, "12 (some crossing is a bound); over all values the slope is at least 1"]
    assert steps.rows[2][5] == "> 1200 (1 of 5 seeds did not get there)"
    measured, bound = figure.panels[0].series[:2]
    assert list(measured.x) == [3.0, 6.0]
    assert (list(bound.x), list(bound.relations)) == ([12.0], [">"])


def test_steps_that_are_an_upper_bound_are_named_and_left_out():
    report = convergence([synthetic(1.0, early=50.0)])  # log_every is 100
    (found,), (figure,), (slopes, steps) = report.claims, report.figures, report.tables
    assert (found.verdict, found.reason) == ("undecided", "few values")
    assert found.estimate is not None
    assert found.estimate.values == 2
    assert found.estimate.value == pytest.approx(0.999, abs=5e-4)  # the spread of the last value is not even in logs
    assert slopes.rows[0][-2] == 2
    assert "at least" in str(slopes.rows[0][-1])  # the true steps at the smallest value are fewer
    assert steps.rows[0][5:8] == ["<= 250 (1 of 5 seeds in the first window)", "", ""]
    measured, bound = figure.panels[0].series[:2]
    assert list(measured.x) == [6.0, 12.0]
    assert (list(bound.x), list(bound.y), list(bound.relations)) == ([3.0], [250.0], ["<="])
    slopes, _ = convergence([synthetic(1.0, early=51.0)]).tables  # in the second window: a number
    assert slopes.rows[0][-2] == 3


def test_a_stack_has_a_slope_and_no_claim():
    report = convergence([synthetic(2.0, depth=2)])
    (figure,), (slopes, _) = report.figures, report.tables
    assert report.claims == []
    assert slopes.rows[0][4].startswith("2 (")  # type: ignore[union-attr]
    assert slopes.rows[0][5:7] == ["none", "not applicable"]
    assert len(figure.panels[0].series) == 1
