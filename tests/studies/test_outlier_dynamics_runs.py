"""The kinds `outlier_training`, `outlier_gates` and `outlier_attack` at tiny sizes, from YAML to report."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from iclab.claims.li2025 import DECAY, LEARNED, LOOKED_AT_END, ONE_LAYER, SEARCH, SUPPRESSED
from iclab.evaluation import scaling_slope
from iclab.experiments.registry import load_kind
from iclab.experiments.resolved import resolve
from iclab.results.page import Report
from iclab.results.results import Results
from iclab.runs.results import load_results
from iclab.runs.run import run_experiment
from outlier_dynamics_files import write_files

pytestmark = pytest.mark.usefixtures("no_rendering")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("kinds"))


def run(folder: Path, name: str, arguments: list[str], out: Path) -> tuple[Results, Report]:
    threads = torch.get_num_threads()
    resolved = resolve(str(folder / f"{name}.yaml"), arguments)
    run_experiment(resolved, out, engine="inline", quiet=True)
    torch.set_num_threads(threads)
    results = load_results(out)
    return results, load_kind(resolved.definition.kind).summarise(results)


def with_loss(results: Results, loss: float) -> Results:
    """The same, as if training had ended at this loss."""
    table = results.summary
    return replace(results, summary=table.assign(value=table["value"].where(table["metric"] != "training_loss", loss)))


def verdicts(report: Report) -> set[tuple[str, str]]:
    """Verdicts, each with the condition that fails or else with its reason."""
    return {(result.verdict, result.condition or result.reason) for result in report.claims}


def test_attention_over_training(folder: Path, tmp_path: Path):
    results, report = run(folder, "attention", ["seed=0..4"], tmp_path / "run")
    shares = results.select(metric="same_share", part="scores", learner="Mamba", step=[0, 20, 40])
    assert len(shares) == 3
    assert [figure.name for figure in report.figures] == ["curves", "attention", "attention-gated", "attention-signed"]
    titles = [panel.title for panel in report.figures[1].panels]
    assert titles == ["Mamba", "softmax attention, 2 layers, layer 1", "softmax attention, 2 layers, layer 2"]
    assert [panel.title for panel in report.figures[2].panels] == ["Mamba"]
    assert {list(s.x)[-1] for panel in report.figures[0].panels for s in panel.series} == {40.0}
    assert [result.subject for result in report.claims] == ["Mamba", "softmax attention, 2 layers"]  # the last layers
    assert verdicts(report) == {("not applicable", LEARNED)}  # 40 steps teach nothing
    last = float(results.select(metric="training_loss", learner="Mamba", step=40)["value"].iloc[0])
    assert f"The last window of its training has a mean loss of {last:.3g}." in report.claims[0].remarks
    read = load_kind("outlier_training").summarise
    learned = with_loss(results, 0.15)
    first = read(learned).claims[0]
    assert (first.verdict, first.seeds) == ("supported", 5)  # patterns are orthogonal: it holds from the start
    assert verdicts(read(with_loss(results, 0.16))) == {("not applicable", LEARNED)}
    start = replace(learned, summary=learned.summary[~learned.summary["step"].isin([20, 40])])
    assert verdicts(read(start)) == {("not applicable", LOOKED_AT_END)}
    table = learned.summary
    stopped = replace(learned, summary=table.assign(num_seeds=table["num_seeds"].where(table["step"] != 40, 4)))
    assert verdicts(read(stopped)) == {("not applicable", LOOKED_AT_END)}
    _, few = run(folder, "attention", ["seed=0..1", "prompts.outlier_fraction=0.2,0.4"], tmp_path / "few")
    assert {result.verdict for result in few.claims} == {"not applicable"}
    assert few.figures[1].panels[0].title == "outlier_fraction = 0.2, Mamba"


def test_convergence_judges_its_own_steps(folder: Path, tmp_path: Path):
    results, report = run(folder, "convergence", ["seed=0..4"], tmp_path / "run")
    rows = results.select(metric="steps_to_level", axis="relevant", loss_level=0.6).sort_values("at")
    slope = scaling_slope([2, 4], torch.tensor(rows["seed_values"].tolist()).T.numpy())
    result = next(result for result in report.claims if result.claim.id.endswith(".relevant"))
    estimate, interval = result.estimate, result.interval
    assert estimate is not None
    assert interval is not None
    assert (estimate.value, interval.low, interval.high) == pytest.approx((slope.slope, slope.low, slope.high))
    assert (estimate.values, estimate.seeds) == (2, 5)
    assert (result.verdict, result.reason) == ("undecided", "few values")
    assert result.size_that_could_decide is not None
    assert result.size_that_could_decide.values == 3
    lengths = results.select(metric="steps_to_level", axis="num_examples", loss_level=0.6).sort_values("at")
    assert lengths["value"].iloc[0] > lengths["value"].iloc[1]  # a longer context is learned in fewer steps
    steps = next(table for table in report.tables if table.name == "steps")
    assert len(steps.rows) == 2 * 2 * 2
    reached = results.select(metric="reached", loss_level=1e-5)["value"]
    assert float(reached.min()) == 0  # random labels of outliers leave some loss
    missed = sorted(f"({round(5 * (1 - share))} of 5 seeds did not get there)" for share in reached if share < 1)
    bounds = [str(row[5]) for row in steps.rows if "not get there" in str(row[5])]
    assert sorted(text.split(" ", 2)[2] for text in bounds) == missed


def test_gates_by_size_and_layer(folder: Path, tmp_path: Path):
    results, report = run(folder, "gates", ["seed=0..4"], tmp_path / "run")
    titles = [panel.title for panel in report.figures[0].panels]
    assert titles == [
        f"{name}, kappa_a' = {size}"
        for name in ("Mamba", "Mamba, 2 layers, layer 1", "Mamba, 2 layers, layer 2")
        for size in (2, 5)
    ]
    assert [result.claim for result in report.claims] == [SUPPRESSED, DECAY] * 6
    fit = report.figures[1].panels[0].series[1]
    decay = results.select(metric="decay", learner="Mamba", size=2.0)["value"].iloc[0]
    assert fit.y[1] / fit.y[0] == pytest.approx(decay)
    bound = report.figures[1].panels[0].series[2]
    assert bound.y[0] / bound.y[2] == pytest.approx(4)
    read = load_kind("outlier_gates").summarise
    loss = results.select(metric="training_loss")["value"]
    assert loss.between(0.1, 1).all()
    assert verdicts(report) == {("not applicable", LEARNED), ("not applicable", ONE_LAYER)}
    assert f"The last window of its training has a mean loss of {loss.iloc[0]:.3g}." in report.claims[0].remarks
    learned = with_loss(results, 0.01)
    judged = read(learned).claims
    assert [result.condition for result in judged] == [""] * 4 + [ONE_LAYER] * 8
    assert {result.verdict for result in judged[:4]} <= {"supported", "contradicted", "undecided"}
    few = read(replace(learned, summary=learned.summary.assign(num_seeds=4))).claims
    assert {(result.verdict, result.reason) for result in few[:4]} == {("undecided", "few seeds")}
    old = replace(results, summary=results.summary[results.summary["metric"] != "training_loss"])
    assert [result.verdict for result in read(old).claims] == [result.verdict for result in judged]


def test_attacks_are_worse_than_what_they_are_beside(folder: Path, tmp_path: Path):
    results, report = run(folder, "attack", ["seed=0..4"], tmp_path / "run")
    for learner in ("Mamba", "linear Transformer"):
        for size in (1.0, 3.0):
            found = results.select(metric="error", learner=learner, size=size, position="worst")
            error = found.set_index("attack")["value"]
            assert error["gradient"] >= max(error["search"], error["random"], error["label"])
            shares = results.select(metric="share", learner=learner, size=size)
            assert shares["value"].sum() == pytest.approx(1)
            rows = results.select(metric="attacked_margin", learner=learner, size=size)
            margin = rows.set_index("attack")["value"]
            assert margin["gradient"] < margin["search"] < margin["random"] < margin["none"]
            gain = results.select(metric="search_gain", learner=learner, size=size)["value"].iloc[0]
            assert gain == pytest.approx(margin["search"] - margin["gradient"])
            ratio = f"({margin['gradient'] / margin['none']:.3g} against"
            assert any(ratio[1:] in remark for r in report.claims for remark in r.remarks) == (size == 3.0)
    assert len(results.select(metric="error_at", learner="Mamba", size=1.0)) == 5
    assert results.select(metric="error", attack="gradient")["num_prompts"].unique().tolist() == [12]  # 6 tasks
    assert [(result.claim, result.verdict) for result in report.claims] == [(SEARCH, "supported")] * 2
    assert len(report.notes) == 2
    read = load_kind("outlier_attack").summarise
    table = results.summary
    negative = table["value"].where((table["metric"] != "attacked_margin") | (table["attack"] != "none"), -1e-3)
    unlearned = read(replace(results, summary=table.assign(value=negative))).claims[0]
    assert unlearned.verdict == "supported"  # the clean margin is no divisor
    (remark,) = unlearned.remarks
    assert "where the clean one is -0.001" in remark
    assert "of the clean margin" not in remark
    old = read(replace(results, summary=table[~table["metric"].isin(["attacked_margin", "search_gain"])]))
    assert verdicts(old) == {("not applicable", SEARCH.conditions[0])}
    gain = (table["metric"] == "search_gain") & (table["size"] == 1.0)
    for low, high, verdict in ((-1.0, 1.0, "undecided"), (-2.0, -1.0, "contradicted")):
        changed = table.assign(low=table["low"].where(~gain, low), high=table["high"].where(~gain, high))
        assert read(replace(results, summary=changed)).claims[0].verdict == verdict
    assert [figure.name for figure in report.figures] == ["error", "distance", "directions"]
    assert len(report.tables[0].rows) == 4
