"""The kinds `outlier_training`, `outlier_gates` and `outlier_attack` at tiny sizes, from YAML to reading."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from iclab.errors import InputError
from iclab.evaluation import scaling_slope
from iclab.experiments.reading import Reading
from iclab.experiments.registry import load_kind
from iclab.experiments.resolve import resolve
from iclab.runs.results import Results, load_results
from iclab.runs.run import run_experiment

SMALL = "prompts: {ambient_dim: 8, relevant: 3, irrelevant: 2, outliers: 2}"
TRAINING = "training: {steps: 40, batch_size: 16, num_examples: 6, learning_rate: 0.02, log_every: 10}"
FILES = {
    "attention": f"""
kind: outlier_training
config:
  {SMALL}
  learners: {{mamba: {{{TRAINING}}}, deep: {{kind: softmax, depth: 2, role: ablation, {TRAINING}}}}}
  probes: 2
  probe_prompts: 16
""",
    "convergence": f"""
kind: outlier_training
config:
  {SMALL}
  learners:
    linear: {{kind: linear, start: 0.05, training: {{steps: 60, batch_size: 16, learning_rate: 0.02, log_every: 2}}}}
  levels: [0.6, 0.00001]
  vary: {{num_examples: [5, 10], relevant: [2, 4]}}
""",
    "gates": f"""
kind: outlier_gates
config:
  {SMALL}
  learners: {{mamba: {{{TRAINING}}}, deep: {{depth: 2, {TRAINING}}}}}
  test: {{num_examples: 6, outlier_fraction: 0.3, coefficients: [[0.8, 0.2]]}}
  outlier_sizes: [2.0, 5.0]
  num_prompts: 24
  fitted: 3
""",
    "attack": f"""
kind: outlier_attack
config:
  {SMALL}
  learners: {{mamba: {{{TRAINING}}}, linear: {{kind: linear, {TRAINING}}}}}
  test: {{num_examples: 5, outlier_fraction: 0.0, coefficients: null}}
  sizes: [1.0, 3.0]
  prompts_per_task: 2
  steps: 6
  restarts: 2
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("kinds")
    for name, content in FILES.items():
        (made / f"{name}.yaml").write_text(f"title: Tiny\nquestion: Tiny?\n{content}")
    return made


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings are looked at as data; drawing them takes most of the time of a tiny run."""
    monkeypatch.setattr("iclab.report.build_report", lambda results, folder, reading: folder / "report.html")


def run(folder: Path, name: str, arguments: list[str], out: Path) -> tuple[Results, Reading]:
    threads = torch.get_num_threads()
    resolved = resolve(str(folder / f"{name}.yaml"), arguments)
    run_experiment(resolved, out, engine="inline", quiet=True)
    torch.set_num_threads(threads)
    results = load_results(out)
    return results, load_kind(resolved.definition.kind).read(results)


def verdicts(reading: Reading) -> set[str]:
    return {finding.verdict for finding in reading.findings}


def test_attention_over_training(folder: Path, tmp_path: Path):
    results, reading = run(folder, "attention", ["seed=0..4"], tmp_path / "run")
    shares = results.select(metric="same_share", part="scores", learner="Mamba", step=[0, 20, 40])
    assert len(shares) == 3
    assert [figure.name for figure in reading.figures] == ["curves", "attention", "attention-gated", "attention-signed"]
    titles = [panel.title for panel in reading.figures[1].panels]
    assert titles == ["Mamba", "softmax attention, 2 layers, layer 1", "softmax attention, 2 layers, layer 2"]
    assert [panel.title for panel in reading.figures[2].panels] == ["Mamba"]
    assert {list(s.x)[-1] for panel in reading.figures[0].panels for s in panel.series} == {40.0}
    assert len(reading.findings) == 2  # the last layer of each learner
    assert "of layer 2, the last," in reading.findings[1].text
    assert reading.findings[0].verdict == "agrees"  # patterns are orthogonal: it holds from the start
    _, few = run(folder, "attention", ["seed=0..1", "prompts.outlier_fraction=0.2,0.4"], tmp_path / "few")
    assert verdicts(few) == {"information"}
    assert few.figures[1].panels[0].title == "outlier_fraction = 0.2, Mamba"


def test_convergence_reads_its_own_steps(folder: Path, tmp_path: Path):
    results, reading = run(folder, "convergence", ["seed=0..4"], tmp_path / "run")
    rows = results.select(metric="steps_to_level", axis="relevant", loss_level=0.6).sort_values("at")
    slope = scaling_slope([2, 4], torch.tensor(rows["seed_values"].tolist()).T.numpy())
    finding = next(f for f in reading.findings if "M1" in f.text)
    assert f"slope {slope.slope:.3g} ({slope.low:.3g} to {slope.high:.3g}) over 2 values" in finding.text
    inside, outside = max(1 - slope.low, slope.high - 1) <= 0.25, slope.low > 1.25 or slope.high < 0.75
    assert finding.verdict == ("agrees" if inside else "disagrees" if outside else "undecided")
    lengths = results.select(metric="steps_to_level", axis="num_examples", loss_level=0.6).sort_values("at")
    assert lengths["value"].iloc[0] > lengths["value"].iloc[1]  # a longer context is learned in fewer steps
    steps = next(table for table in reading.tables if table.name == "steps")
    assert len(steps.rows) == 2 * 2 * 2
    reached = results.select(metric="reached", loss_level=1e-5)["value"]
    assert float(reached.min()) == 0  # random labels of outliers leave some loss
    missed = [f"not reached by {round(5 * (1 - share))} of 5 seeds" for share in reached if share < 1]
    assert sorted(str(row[5]) for row in steps.rows if "not reached" in str(row[5])) == sorted(missed)


def test_gates_by_size_and_layer(folder: Path, tmp_path: Path):
    results, reading = run(folder, "gates", ["seed=0..4"], tmp_path / "run")
    titles = [panel.title for panel in reading.figures[0].panels]
    assert titles == [
        f"{name}, kappa_a' = {size}"
        for name in ("Mamba", "Mamba, 2 layers, layer 1", "Mamba, 2 layers, layer 2")
        for size in (2, 5)
    ]
    assert len(reading.findings) == 2 * 6
    fit = reading.figures[1].panels[0].series[1]
    decay = results.select(metric="decay", learner="Mamba", size=2.0)["value"].iloc[0]
    assert fit.y[1] / fit.y[0] == pytest.approx(decay)
    bound = reading.figures[1].panels[0].series[2]
    assert bound.y[0] / bound.y[2] == pytest.approx(4)
    assert "information" not in verdicts(reading)
    few = replace(results, summary=results.summary.assign(interval="range"))
    assert verdicts(load_kind("outlier_gates").read(few)) == {"information"}


def test_attacks_are_worse_than_what_they_are_beside(folder: Path, tmp_path: Path):
    results, reading = run(folder, "attack", ["seed=0..4"], tmp_path / "run")
    for learner in ("Mamba", "linear Transformer"):
        for size in (1.0, 3.0):
            found = results.select(metric="error", learner=learner, size=size, place="worst")
            error = found.set_index("attack")["value"]
            assert error["gradient"] >= max(error["search"], error["random"], error["label"])
            shares = results.select(metric="share", learner=learner, size=size)
            assert shares["value"].sum() == pytest.approx(1)
            margin = results.select(metric="margin", learner=learner, size=size).set_index("attack")["value"]
            assert margin["gradient"] < margin["search"] < margin["random"]
    assert len(results.select(metric="error_at", learner="Mamba", size=1.0)) == 5
    assert results.select(metric="error", attack="gradient")["num_prompts"].unique().tolist() == [12]  # 6 tasks
    assert "disagrees" not in verdicts(reading)
    assert [figure.name for figure in reading.figures] == ["error", "distance", "directions"]
    assert len(reading.tables[0].rows) == 4


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("attention", ["learners.deep.label=Mamba"], "learners are called Mamba, Mamba; expected distinct names"),
        ("attention", ["prompts.relevant=7"], "prompts: 7 relevant, 2 irrelevant and 2 outlier patterns"),
        ("attention", ["learners.mamba.training.steps=1000000000000000"], "learners.mamba.training.steps"),
        ("convergence", ["vary.relevant=[3,3]"], "vary.relevant is \\[3, 3\\]; expected distinct values"),
        ("convergence", ["vary.relevant=[9]"], "vary.relevant = 9: 9 relevant"),
        ("convergence", ["levels=[0.5,0.5]"], "levels are \\[0.5, 0.5\\]"),
        (
            "convergence",
            ["vary.outlier_fraction=[0.1]", "learners.linear.law.outlier_fraction=0.2"],
            "leave one of them unset",
        ),
        ("gates", ["learners.deep.kind=softmax"], "learners.deep.kind is 'softmax', which has no gates"),
        ("gates", ["test.outlier_fraction=0"], "test.outlier_fraction is 0; expected a number between 0 and 1"),
        ("gates", ["fitted=8"], "about 4.2 clean examples; expected no more"),
        ("gates", ["outlier_sizes=[2,2]"], "outlier_sizes are \\[2.0, 2.0\\]"),
        ("gates", ["test.coefficients=[[1,2,3]]"], "test: number 0 of the coefficients is a vector of length 3"),
        ("attack", ["sizes=[1,1]"], "sizes are \\[1.0, 1.0\\]; expected distinct sizes"),
        ("attack", ["test.coefficients=[[1]]"], "test: number 0 of the coefficients"),
        ("attack", ["test.tasks=[[0,0]]"], "test: a task is \\(0, 0\\)"),
        ("attack", ["learners.linear.law.tasks=7"], "learners.linear.law: tasks is 7"),
    ],
)
def test_wrong_configurations_are_refused_before_anything_is_run(
    folder: Path, name: str, arguments: list[str], message: str
):
    with pytest.raises(InputError, match=message) as caught:
        resolve(str(folder / f"{name}.yaml"), arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["attention", "convergence", "gates", "attack"])
def test_the_catalogue_has_laptop_and_full(name: str):
    for scale in ("laptop", "full"):
        resolved = resolve(f"li2025/{name}", [f"scale={scale}"])
        assert len({cell.config.seed for cell in resolved.cells}) >= 5  # type: ignore[attr-defined]
        assert 0 < resolved.seconds < (3600 if scale == "laptop" else 2 * 86400)
