"""One cell of the error experiment: which streams feed it, and what its numbers are divided by and computed from."""

import numpy as np
import pytest

from iclab.evaluation import Measurement, readout_error
from iclab.links import make_link
from iclab.prompts import Stream
from iclab.studies.error.config import ErrorConfig
from iclab.studies.error.names import THEORY, ZERO
from iclab.studies.error.study import run_cell
from iclab.theory import GateMoments

LENGTHS = [4, 8]
SMALL = {"num_examples": 8, "stage1_tasks": 64, "stage2_tasks": 64}
LEARNERS = {
    "two_stage": {"kind": "one_layer", "width": 8, "pretraining": {"kind": "two_stage", **SMALL}},
    "joint": {"kind": "one_layer", "width": 8, "pretraining": {"kind": "joint", "num_examples": 8, "steps": 2}},
    "oracle": {"kind": "direction_readout", "calibration_tasks": 16},
    "kernel": {"kind": "kernel_ridge", "tune_prompts": 8, "tune_examples": [8]},
    "zero": {"kind": "zero"},
}
LINK = "3 + 2*tanh(z)"


def cell(noise: float = 0.0, **changes: object) -> ErrorConfig:
    settings = {
        "seed": 3,
        "prompts": {"ambient_dim": 4, "intrinsic_dim": 2, "link": LINK, "standardise": False, "noise": noise},
        "learners": {key: {**section, "label": key} for key, section in LEARNERS.items()},
        "theory_gate": "two_stage",
        "num_examples": LENGTHS,
        "num_prompts": 40,
        "num_queries": 2,
    }
    return ErrorConfig.model_validate(settings | changes)


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, ...]]:
    """The paths of the streams that anything is drawn from."""
    seen: set[tuple[str, ...]] = set()
    original = Stream.at

    def at(self: Stream, index: int):
        seen.add(self.path)
        return original(self, index)

    monkeypatch.setattr(Stream, "at", at)
    return seen


def test_nothing_that_is_fitted_or_tuned_sees_the_prompts_that_are_reported(paths: set[tuple[str, ...]]) -> None:
    config = cell()
    setting = config.setting
    _ = setting.distribution
    paths.clear()
    fitted = {}
    for name, section in config.learners.items():
        section.fit(name, setting)
        fitted[name] = set(paths)
        paths.clear()
    # Everything but predicting zero draws prompts of its own.
    assert [name for name, drawn in fitted.items() if not drawn] == ["zero"]
    for drawn in fitted.values():
        assert not any("evaluation" in path for path in drawn)
    run_cell(config)
    support = {path for path in paths if path[0] == "single-index"}
    assert paths - set().union(*fitted.values()) - support == {("evaluation",)}


def values(measured: list[Measurement], learner: str, metric: str = "squared_error") -> np.ndarray:
    found = [m for m in measured if (m.learner, m.metric) == (learner, metric)]
    assert [m.num_examples for m in found] == LENGTHS
    return np.array([m.value for m in found])


def test_errors_of_a_link_that_is_not_standardised_are_in_units_of_its_variance() -> None:
    config = cell(learners={"zero": {"kind": "zero", "label": "nothing"}}, theory_gate=None, num_prompts=128)
    link = make_link(LINK)
    measured = run_cell(config)
    distribution = config.prompts.build(config.seed)
    sample = distribution.sample(Stream(config.seed).child("evaluation"), 128, max(LENGTHS), 2).query_targets.double()
    assert link.variance > 1.4
    for learner in ("nothing", ZERO):
        assert values(measured, learner) == pytest.approx(float((sample**2).mean()) / link.variance, rel=1e-5)
        absolute = values(measured, learner, "absolute_error")
        assert absolute == pytest.approx(float(sample.abs().mean()) / link.variance**0.5, rel=1e-5)


@pytest.mark.parametrize("noise", [0.0, 1.5])
def test_the_exact_curve_knows_the_noise_and_the_variance(noise: float) -> None:
    gate = {"kind": "direction_readout", "label": "gate", "rho": 0.7, "b": -2.0, "calibration_tasks": 8}
    measured = run_cell(cell(noise, learners={"gate": gate}, theory_gate="gate"))
    link = make_link(LINK)

    def curve(tau: float) -> np.ndarray:
        moments = GateMoments(link, tau, 0.7, -2.0)
        return readout_error(link, moments.alignment_curve(LENGTHS, 2)) / link.variance

    assert values(measured, THEORY) == pytest.approx(curve(noise), rel=1e-12)
    assert np.abs(curve(1.5) - curve(0.0)).min() > 0.01
