"""The outlier error experiment at tiny sizes: against the library called directly, and bad input before any work."""

from pathlib import Path

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.experiments.resolve import resolve
from iclab.experiments.sections.base import Setting
from iclab.experiments.sections.outliers import (
    AttentionLearner,
    HingeTraining,
    OutlierPromptsSection,
    TestDistribution,
    TrainingChanges,
)
from iclab.models import GatedLinearAttention
from iclab.pretraining import hinge_sgd
from iclab.prompts import OutlierClassification, Stream
from iclab.runs.results import load_results
from iclab.runs.run import run_experiment
from iclab.studies.outliers.error.config import OutlierErrorConfig, TestAxes, no_clean_example
from iclab.studies.outliers.error.study import evaluation_prompts, run_cell

SMALL = OutlierPromptsSection(ambient_dim=9, relevant=3, irrelevant=2, outliers=3)
TRAINING = HingeTraining(num_examples=5, steps=12, batch_size=8)
SHORT = TestDistribution(num_examples=6)


def _config(**changes: object) -> OutlierErrorConfig:
    values = {
        "seed": 3,
        "prompts": SMALL,
        "learners": {"m": AttentionLearner(label="Mamba", training=TRAINING)},
        "test": SHORT,
        "axes": TestAxes(outlier_fraction=[0.0, 0.5, 1.0]),
        "prompts_per_task": 5,
        "num_queries": 3,
    }
    return OutlierErrorConfig.model_validate(values | changes)


def test_errors_equal_the_library_called_directly() -> None:
    config = _config()
    measured = {m.keys["outlier_fraction"]: m for m in run_cell(config) if m.metric == "error"}

    distribution = OutlierClassification(9, 3, 2, 3, outlier_fraction=0.6, label_rule="random", seed=3)
    model = GatedLinearAttention(9, stream=Stream(3).child("model"))
    hinge_sgd(model, distribution, stream=Stream(3).child("pretraining"), num_examples=5, steps=12, batch_size=8)
    coefficients = [[0.7, 0.6, -0.4], [0.4, 0.7, -0.6], [-0.7, 0.5, 0.5]]
    for alpha in (0.5, 1.0):
        errors = []
        for pair in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]:
            test = distribution.replace(
                tasks=[pair],
                outlier_fraction=alpha,
                label_rule="flipped",
                coefficients=coefficients,
                irrelevant_range=2.0,
            )
            prompts = test.sample(Stream(3).child("evaluation").child(f"task {pair[0]} {pair[1]}"), 5, 6, 3)
            answers = model.predict(prompts).sign()
            errors.extend((answers != prompts.query_targets).double().mean(1).tolist())
        np.testing.assert_allclose(measured[alpha].samples, [errors], atol=1e-12)
        assert measured[alpha].num_examples == 6
    assert measured[1.0].value > 0.5  # every label is flipped, and the model has only begun to learn


def test_an_output_of_zero_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(self: object, prompts: object) -> torch.Tensor:
        return torch.zeros_like(prompts.query_labels)  # type: ignore[attr-defined]

    monkeypatch.setattr(GatedLinearAttention, "predict", silent)
    assert {m.value for m in run_cell(_config()) if m.metric == "error"} == {1.0}


def test_tasks_are_balanced_and_laws_differ_in_their_outliers_alone() -> None:
    config = _config()
    distribution = SMALL.build(3)
    clean, some, all_outliers = (evaluation_prompts(config, point, distribution) for point in config.points())
    pairs, counts = np.unique(clean.tasks.numpy(), axis=0, return_counts=True)
    assert len(pairs) == 6
    assert set(counts) == {5}
    assert not clean.outliers.any()
    assert all_outliers.example_outliers.all()
    for other in (some, all_outliers):
        torch.testing.assert_close(other.inputs[~other.outliers], clean.inputs[~other.outliers], rtol=0, atol=0)
        torch.testing.assert_close(other.queries, clean.queries, rtol=0, atol=0)
        assert bool((other.labels == clean.labels)[~other.outliers].all())
        assert bool((other.labels == -clean.labels)[other.outliers].all())


def test_named_outliers_and_lengths_make_the_product_of_the_axes() -> None:
    axes = {"num_examples": [4, 8], "outlier_vectors": {"own": {}, "u": {"coefficients": [[0, 0, 0]], "orthogonal": 2}}}
    points = list(_config(axes=axes | {"outlier_fraction": [0.5]}).points())
    assert [p.distribution.num_examples for p in points] == [4, 4, 8, 8]
    assert [p.distribution.orthogonal for p in points] == [0, 2, 0, 2]
    assert points[0].distribution.coefficients is None
    assert points[1].keys == {
        "outlier_fraction": 0.5, "outlier_vectors": "u", "label_rule": "flipped", "outlier_size": 2.0,
        "irrelevant_range": 2.0, "placement": "random", "sampling": "iid", "input_noise": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fraction", "length", "sampling", "share"),
    [(0.8, 20, "iid", 0.8**20), (0.0, 5, "iid", 0.0), (0.89, 5, "fixed_count", 0.0), (0.9, 5, "fixed_count", 1.0)],
)
def test_share_of_prompts_without_a_clean_example(fraction: float, length: int, sampling: str, share: float) -> None:
    assert no_clean_example(fraction, length, sampling) == pytest.approx(share)
    test = TestDistribution(num_examples=length, outlier_fraction=fraction, sampling=sampling).build(SMALL.build(0))  # type: ignore[arg-type]
    drawn = test.sample(Stream(1), 4000, length).example_outliers.all(1).double().mean()
    assert abs(float(drawn) - share) < 0.006


def test_a_changed_training_law_changes_that_learner_alone() -> None:
    changed = AttentionLearner(label="changed", training=TRAINING, prompts=TrainingChanges(placement="closest"))
    usual = AttentionLearner(label="usual", training=TRAINING)
    alone = run_cell(_config(learners={"u": usual}))
    both = run_cell(_config(learners={"c": changed, "u": usual}))
    found = [[m.value for m in measured if m.learner == "usual"] for measured in (alone, both)]
    assert found[0] == found[1]
    trained = changed.prompts.apply(SMALL.build(3))
    assert isinstance(trained, OutlierClassification)
    assert (trained.rules.placement, trained.rules.fraction) == ("closest", 0.6)


@pytest.mark.parametrize("kind", ["gated", "linear", "softmax"])
def test_every_model_trains_at_both_depths(kind: str) -> None:
    for depth, layers in ((1, ""), (2, ", 2 layers")):
        section = AttentionLearner.model_validate({"kind": kind, "depth": depth, "training": TRAINING, "start": 0.1})
        model, record = section.train(Setting(SMALL, 0))
        assert record.steps == 12
        assert section.name.endswith(layers)
        assert model.settings()["start"] == 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prompts.outlier_fraction=1.5"], "prompts.outlier_fraction is 1.5; expected a value <= 1"),
        (["axes.outlier_fraction=[-0.1]"], "axes.outlier_fraction.0 is -0.1; expected a value >= 0"),
        (["axes.label_rule=[flip]"], "axes.label_rule.0 is 'flip'"),
        (["prompts.placement=nearest"], "prompts.placement is 'nearest'"),
        (["prompts.relevant=1"], "prompts.relevant is 1"),
        (["prompts.irrelevant=30"], "39; expected at most ambient_dim = 30"),
        (["prompts.tasks=7"], "tasks is 7 for 6 patterns"),
        (["test.coefficients=[[1,2]]"], "the test distribution .*number 0 of the coefficients is a vector of length 2"),
        (["axes.outlier_vectors={short: {coefficients: [[1.0]]}}"], "outlier_vectors=short: .*length 1"),
        (["prompts.ambient_dim=19", "test.orthogonal=1"], "the test distribution .*fill all 19 dimensions"),
        (["axes.outlier_size=[2,2]"], "axes.outlier_size is .*distinct values"),
        (["axes.num_examples=[20,20]"], "axes.num_examples is .*distinct values"),
        (["learners.mamba.prompts.tasks=[[0,0]]"], "learners.mamba.prompts: .*two different patterns"),
        (["learners.mamba.prompts.placment=closest"], "did you mean"),
        (["learners.mamba.training.steps=1000000000000"], "learners.mamba.training.steps is 1e[+]12: .* years"),
        (
            ["learners.mamba.training.batch_size=1000000000000"],
            "learners.mamba.training.batch_size = 1e[+]12 would take",
        ),
        (["learners.mamba.training.learning_rate=0"], "learning_rate is 0"),
        (["learners.linear.label='softmax attention'"], "learners are called .*expected distinct names"),
        (["learners.linear.label='prompts without a clean example'"], "which every run measures itself"),
        (["learners.mamba.kind=mamba"], "learners.mamba.kind is 'mamba'"),
        (["prompts_per_task=1000000000000"], "prompts_per_task"),
        (
            ["test.outlier_size=50"],
            "test.outlier_size is 50.* and changes nothing, since axes.outlier_size has its values",
        ),
        (["test.outlier_fraction=0.2,0.5"], "test.outlier_fraction is 0.2 and changes nothing"),
        (["test.num_examples=0"], "test.num_examples is 0"),
    ],
)
def test_bad_input_is_one_line_before_any_work(arguments: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        resolve("li2025/outlier-fraction", arguments)
    assert "\n" not in str(caught.value)


def test_too_many_test_laws_are_refused() -> None:
    fractions = "[" + ",".join(f"{i / 2000}" for i in range(1500)) + "]"
    with pytest.raises(InputError, match="axes make 13,500 test distributions"):
        resolve("li2025/outlier-fraction", [f"axes.outlier_fraction={fractions}"])


def test_a_run_ends_with_figures_and_tables(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    tiny = ["prompts.ambient_dim=14", "prompts.relevant=3", "prompts.irrelevant=2", "prompts_per_task=2", "seed=0..1"]
    tiny += [f"learners.{name}.training.steps=2" for name in ("mamba", "linear", "softmax")]
    tiny += ["axes.outlier_fraction=[0.0,0.8]", "axes.label_rule=[flipped]", "axes.outlier_size=[2.0]"]
    run_experiment(resolve("li2025/outlier-fraction", tiny), tmp_path / "run", engine="inline", quiet=True)
    torch.set_num_threads(threads)
    results = load_results(tmp_path / "run")
    rows = results.select(metric="error", learner="linear Transformer", outlier_fraction=0.8)
    assert rows["num_prompts"].tolist() == [12]  # six tasks of two prompts
    floor = results.select(metric="no_clean_example", outlier_fraction=0.8)
    assert floor["value"].iloc[0] == pytest.approx(0.8**20)
    assert {path.name for path in (tmp_path / "run" / "figures").glob("*.svg")} == {"error.svg", "error-small.svg"}
