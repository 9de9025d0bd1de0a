"""Reports of whatever was swept: settings are never mixed, missing results are said, and a verdict needs its seeds."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from iclab.claims import oh2025
from iclab.cli.main import main
from iclab.experiments.registry import load_kind
from iclab.experiments.resolved import resolve
from iclab.results.grid_points import capped, column_of, grid_points, swept_columns
from iclab.results.page import Panel, Report
from iclab.results.results import Results
from iclab.results.wording import band, basis, interval_note
from iclab.runs.results import load_results
from iclab.runs.run import run_experiment
from iclab.studies.alignment.report import coverage, curve_end
from iclab.studies.exponents.report import exponent_claim

pytestmark = pytest.mark.usefixtures("no_rendering")

COIN = str(Path(__file__).parents[1] / "kinds" / "coin.yaml")
PRETRAINING = {"num_examples": 8, "stage1_tasks": 16, "stage2_tasks": 16}
LEARNERS = [
    f"learners.{name}.{key}={value}"
    for name in ("mamba", "no_gate")
    for key, value in (("width", 8), *((f"pretraining.{k}", v) for k, v in PRETRAINING.items()))
]
ERROR = """
title: Tiny
question: Tiny?
kind: error
config:
  prompts: {ambient_dim: 4, intrinsic_dim: 2}
  num_examples: [4, 8]
  num_prompts: 8
  num_queries: 2
  theory_gate: null
"""
KERNEL = ["learners.kernel_all.tune_prompts=2", "learners.kernel_all.max_examples=4"]


def _run(name: str, arguments: list[str], folder: Path) -> tuple[Results, Report]:
    threads = torch.get_num_threads()
    resolved = resolve(name, arguments)
    run_experiment(resolved, folder, engine="inline", quiet=True)
    torch.set_num_threads(threads)
    results = load_results(folder)
    return results, load_kind(resolved.definition.kind).summarise(results)


@pytest.fixture(scope="module")
def tiny_error(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("error") / "tiny.yaml"
    path.write_text(ERROR)
    return str(path)


@pytest.mark.parametrize(
    ("axis", "titles"),
    [
        ("learners.mamba.rho=0.3,1", ["mamba.rho = 0.3", "mamba.rho = 1"]),
        ("prompts.standardise=true,false", ["standardise = true", "standardise = false"]),
        ("prompts.link=[0,0,0,1],he3", ["link = [0.0, 0.0, 0.0, 1.0]", "link = he3"]),
        ("num_examples=[4],[4,8]", ["num_examples = [4]", "num_examples = [4, 8]"]),
        ("learners.mamba.clip=null,3", ["mamba.clip = none", "mamba.clip = 3"]),
    ],
)
def test_every_swept_key_makes_a_grid_point_of_its_own(
    tiny_error: str, tmp_path: Path, axis: str, titles: list[str]
) -> None:
    results, report = _run(tiny_error, [*LEARNERS, *KERNEL, axis, "seed=0..1"], tmp_path / "run")
    panels = report.figures[0].panels
    assert [panel.title for panel in panels] == titles
    for panel in panels:
        for series in panel.series:
            assert len(set(series.x)) == len(series.x)  # one value a length: nothing of the other grid point
    columns = swept_columns(results)
    paired = next(table for table in report.tables if table.name == "paired")
    assert len(paired.rows) == 2 * 2  # two rivals at two grid points
    errors = results.summary[results.summary["metric"] == "squared_error"]
    assert sum(len(point.rows) for point in grid_points(results, errors, columns)) == len(errors)


def test_the_config_of_a_grid_point_is_that_of_its_cells(tiny_error: str, tmp_path: Path) -> None:
    axis = "learners.mamba.pretraining.num_examples=4,8"
    arguments = [a for a in LEARNERS if not a.startswith("learners.mamba.pretraining.num_examples")]
    results, report = _run(tiny_error, [*arguments, *KERNEL, axis, "seed=0"], tmp_path / "run")
    lines = [{n for n, _ in panel.vertical} for panel in report.figures[0].panels]
    assert lines == [{4.0, 8.0}, {8.0}]  # the ungated twin stays at 8
    column = column_of(results, "learners.mamba.pretraining.num_examples")
    assert column == "learners.mamba.pretraining.num_examples"  # num_examples alone is the abscissa
    assert column_of(results, "prompts.noise") is None


@pytest.fixture(scope="module")
def five_seeds(tiny_error: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Report]:
    return _run(tiny_error, [*LEARNERS, *KERNEL, "seed=0..4"], tmp_path_factory.mktemp("seeds") / "run")


def test_error_report_tolerates_learners_that_are_missing(five_seeds: tuple[Results, Report]) -> None:
    results, _ = five_seeds
    read = load_kind("error").summarise
    for learner in ("zero predictor", "Mamba, two-stage", "no gate, two-stage", "kernel ridge, all inputs"):
        kept = replace(
            results,
            per_seed=results.per_seed[results.per_seed["learner"] != learner],
            summary=results.summary[results.summary["learner"] != learner],
        )
        report = read(kept)
        assert len(report.figures[0].panels) == 1
        judged = [result for result in report.claims if result.claim is oh2025.GATE]
        twins = learner not in ("Mamba, two-stage", "no gate, two-stage")
        assert len(judged) == twins
        assert [result.reason == "not measured" for result in judged] == [learner == "zero predictor"] * twins
    partial = results.per_seed[~((results.per_seed["learner"] == "no gate, two-stage") & (results.per_seed.seed == 4))]
    incomplete = read(replace(results, per_seed=partial))
    assert not [result for result in incomplete.claims if "no gate" in result.subject]
    assert not [note for note in incomplete.notes if "no gate" in note]


def test_few_seeds_are_described_and_not_judged(tiny_error: str, tmp_path: Path) -> None:
    _, report = _run(tiny_error, [*LEARNERS, *KERNEL, "seed=0..2"], tmp_path / "run")
    assert [(r.claim, r.verdict, r.reason, r.seeds) for r in report.claims] == [
        (oh2025.GATE, "undecided", "few seeds", 3)
    ]
    compared = [note for note in report.notes if "against" in note]
    assert compared
    for note in compared:
        assert "on these 3 seeds" in note
        assert "better" not in note
    assert "3 seeds, 8 prompts each" in report.figures[0].caption


def test_kernel_curves_say_what_they_were_tuned_to_and_why_they_stop(five_seeds: tuple[Results, Report]) -> None:
    results, report = five_seeds
    table = next(table for table in report.tables if table.name == "tuning")
    ((_, learner, length, bandwidths, _, source),) = table.rows
    assert (learner, length) == ("kernel ridge, all inputs", 4)
    assert source == "tuned on 2 separate prompts of each seed at N = 4"
    chosen = results.select(metric="tuned_bandwidth").iloc[0]
    assert set(chosen["seed_values"]) <= {1.0, 2.0, 4.0, 8.0}  # 0.5, 1, 2 or 4 times the root of d = 4
    for value in set(chosen["seed_values"]):
        assert f"{value:g}" in str(bandwidths)
    assert "stops at N = 4: a prompt costs N^3" in report.figures[0].caption


def test_predictions_before_any_example_are_measured(tiny_error: str, tmp_path: Path) -> None:
    lengths = "num_examples=[0,4]"
    results, report = _run(tiny_error, [*LEARNERS, *KERNEL, lengths, "seed=0"], tmp_path / "run")
    at_zero = results.select(metric="squared_error", num_examples=0).set_index("learner")["value"]
    assert at_zero["kernel ridge, all inputs"] == at_zero["zero predictor"]
    assert report.figures[0].panels[0].x_scale == "symlog"


@pytest.mark.parametrize("axis", ["prompts.noise=0,3", "gates.mamba.rho=0.5,2"])
def test_simulated_and_exact_alignment_are_of_the_same_grid_point(tmp_path: Path, axis: str) -> None:
    arguments = ["prompts.link=tanh", "num_examples=[8]", "num_prompts=64", "seed=0..4", "exact_to=16", axis]
    results, report = _run("oh2025/alignment", arguments, tmp_path / "run")
    # 2 grid points, 4 gates, 2 degrees: no pair of different grid points.
    assert [estimate.label for estimate in report.claims[0].estimates] == ["of 16 points"]
    table = report.tables[0]
    assert len(table.rows) == 16
    column = axis.split("=")[0].rsplit(".", 1)[-1]
    for title, gate, degree, n, _, exact, _ in table.rows:
        value = float(str(title).rsplit(" = ", 1)[1])
        rows = results.select(learner=gate, degree=degree, num_examples=n, metric="exact_alignment", **{column: value})
        assert float(str(exact)) == pytest.approx(rows["value"].iloc[0], abs=6e-4)


def _points(exact: list[float], interval: str = "bootstrap", seeds: int = 5) -> pd.DataFrame:
    row = {"value": 0.5, "low": 0.4, "high": 0.6, "num_seeds": seeds, "num_prompts": 64, "interval": interval,
           "learner": "mamba", "degree": 1, "num_examples": 64}  # fmt: skip
    return pd.DataFrame([row | {"exact": value} for value in exact])


@pytest.mark.parametrize(
    ("exact", "verdict", "reason"),
    [
        ([0.5] * 20, "supported", "chance"),
        ([0.5] * 18 + [0.61] * 2, "supported", "chance"),  # the binomial at 5 % gives up to 3 of 20
        ([0.5] * 14 + [0.61] * 6, "undecided", "more than chance"),
        ([0.5] * 9 + [0.61] * 11, "contradicted", "half"),
        ([0.5] * 19 + [0.95], "contradicted", "far"),  # Bonferroni: t_4 at 0.9987 is 2.4 times t_4 at 0.975
        ([0.5] * 19 + [0.7], "supported", "chance"),
    ],
)
def test_coverage_can_contradict_and_allows_for_many_points(exact: list[float], verdict: str, reason: str) -> None:
    (result,) = coverage(_points(exact))
    assert (result.verdict, result.reason) == (verdict, reason)
    assert (result.seeds, result.prompts) == (5, 64)


def test_coverage_of_few_seeds_is_no_verdict() -> None:
    (result,) = coverage(_points([0.9] * 4, "range", 3))
    assert (result.verdict, result.reason) == ("undecided", "few seeds")
    assert result.estimate is not None
    assert (result.estimate.value, result.estimate.label) == (4, "of 4 points")
    assert (result.seeds, result.prompts) == (3, 64)
    assert coverage(pd.DataFrame()) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.2, 0.5, 0.95], "reaches 0.9 between N = 32 and 64"),
        ([0.95, 0.96, 0.97], "already at N = 16, the shortest computed"),
        ([0.2, 0.5, 0.6], "0.6 and still changing"),
        ([0.2, 0.6, 0.6], "decay holds it at 0.6"),
        ([0.0, 0.0, 0.0], "zero at every N"),
    ],
)
def test_a_plateau_needs_a_flat_last_octave(values: list[float], words: str) -> None:
    assert words in curve_end(pd.DataFrame({"num_examples": [16, 32, 64], "value": values}))


@pytest.mark.parametrize(
    ("ge", "gated", "verdict"),
    [
        (1.0, [1.0, 1.0], "supported"),
        (1.0, [1.0, 2.0], "contradicted"),
        (1.0, [1.0, float("nan")], "undecided"),
        (1.0, [2.0, float("nan")], "contradicted"),
        (float("nan"), [1.0], "undecided"),
        (float("inf"), [float("inf")], "not applicable"),
        (2.0, [float("inf")], "contradicted"),
    ],
)
def test_infinite_and_undecided_exponents_are_no_support(ge: float, gated: list[float], verdict: str) -> None:
    rows = [("information_exponent", 3.0), ("generative_exponent", ge), *(("gated_exponent", v) for v in gated)]
    result = exponent_claim({"a link": pd.DataFrame(rows, columns=["metric", "value"])})
    assert result.verdict == verdict
    assert (result.reason == "unresolved") == (verdict == "undecided")
    assert (result.condition == oh2025.EXPONENT_EXISTS) == (verdict == "not applicable")


@pytest.mark.parametrize("gate", ["[1e6,-3]", "[1e9,-3]", "[1,60]"])
def test_a_coefficient_below_the_tolerance_is_undecided(tmp_path: Path, gate: str) -> None:
    link = "2*exp(-3/2)*sin(z) - sin(2*z)"
    _, report = _run("oh2025/exponents", [f"link={link}", f"gates=[{gate}]"], tmp_path / "run")
    assert report.claims[0].verdict == "undecided"
    assert report.tables[0].rows[0][3] == "undecided"


def test_exponents_are_compared_at_each_grid_point(tmp_path: Path) -> None:
    arguments = ["link=he3,he4", "noise=0,0.5", "gates=[[1,-3]],[[1,-3],[2,-3]]"]
    _, report = _run("oh2025/exponents", arguments, tmp_path / "run")
    assert [row[1:3] for row in report.tables[0].rows] == [["3", "1"]] * 4 + [["4", "2"]] * 4
    assert [row[3] for row in report.tables[0].rows[:2]] == ["(1, -3): 1", "(1, -3): 1, (2, -3): 1"]
    (result,) = report.claims
    assert result.verdict == "supported"
    assert len(result.estimates) == 4 * (1 + 2)  # link and noise, by one gate and by two
    assert [e.threshold for e in result.estimates] == [1.0] * 6 + [2.0] * 6
    assert "2 of 8 panels are left out" in report.figures[0].caption
    assert "the table 'exponents' has their numbers" in report.figures[0].caption


SUPPORT = ["prompts.ambient_dim=6", "stage1_tasks=32", "num_examples=8,16", "width=16"]


def test_support_pairs_gate_and_no_gate_at_each_grid_point(tmp_path: Path) -> None:
    results, report = _run("oh2025/support", [*SUPPORT, "gate.rho=0.3,1", "seed=0..4"], tmp_path / "run")
    assert [panel.title for panel in report.figures[0].panels] == ["gate.rho = 0.3", "gate.rho = 1"]
    found = [(result.claim, result.settings, result.seeds) for result in report.claims]
    assert found == [(oh2025.SUPPORT, {"rho": rho}, 5) for rho in (0.3, 1.0)]
    estimate = report.claims[1].estimate
    assert estimate is not None
    per_seed = results.per_seed[(results.per_seed["degree"] == 1) & (results.per_seed["rho"] == 1.0)]
    means = per_seed.groupby("learner")["value"].mean()
    assert estimate.value == pytest.approx(means["mamba gate"] - means["no gate"])
    assert all(panel.y_limits == (0.0, 1.03) for figure in report.figures for panel in figure.panels)


def test_support_of_one_seed_is_no_verdict(tmp_path: Path) -> None:
    _, report = _run("oh2025/support", [*SUPPORT, "seed=0"], tmp_path / "run")
    assert {(result.verdict, result.reason) for result in report.claims} == {("undecided", "few seeds")}
    text = " ".join(report.notes)
    assert "1 seed)" in text
    assert "1 seeds" not in text
    assert "1 prompt" not in report.figures[0].caption


def _row(**changes: object) -> pd.Series:
    return pd.Series({"num_seeds": 5, "num_prompts": 128, "interval": "bootstrap", "level": 0.95} | changes)


def test_words_for_what_numbers_rest_on() -> None:
    assert basis(_row()) == "5 seeds, 128 prompts each"
    assert basis(_row(num_seeds=1, num_prompts=1)) == "1 seed"
    assert band(pd.DataFrame([_row(num_prompts=1)])) == "95 % over 5 seeds (seeds resampled)"
    note = interval_note(pd.DataFrame([_row(), _row(num_seeds=3, interval="range"), _row(interval="exact")]))
    assert "bootstrap over seeds, then over the prompts" in note
    assert "the smallest and the largest seed" in note
    assert "3 to 5 seeds, 128 prompts each" in note


def test_panels_beyond_the_limit_are_named() -> None:
    panels = [Panel(f"r = {i}", "", "", []) for i in range(7)]
    shown, sentence = capped(panels, "summary.csv", 4)
    assert [panel.title for panel in shown] == ["r = 0", "r = 1", "r = 2", "r = 3"]
    assert "3 of 7 panels are left out (r = 4; r = 5; r = 6); summary.csv has their numbers" in sentence
    assert capped(panels, "summary.csv") == (panels, "")


@pytest.mark.parametrize(
    ("how", "reason"), [("read", "the summary failed: KeyError:"), ("draw", "the report cannot be drawn: ")]
)
def test_a_report_that_fails_costs_neither_tables_nor_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str, reason: str
) -> None:
    folder = tmp_path / "run"
    command = ["run", COIN, "seed=0..1", f"trouble.how={how}", "trouble.seed=9", "--quiet", "--engine", "inline"]
    threads = torch.get_num_threads()
    assert main([*command, "--out", str(folder)]) == 1
    torch.set_num_threads(threads)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(reason)
    assert len(pd.read_csv(folder / "summary.csv")) == 2 * 5
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "No figures and no claims" in page
    assert "All measurements, with their intervals" in page
    assert "off by one" in page
    assert main(["report", str(folder)]) == 1


def test_points_whose_sample_misses_the_tail_enter_no_verdict() -> None:
    """Indices repeat where grid points are joined, so points are told apart by position."""
    points = _points([0.5] * 14 + [0.95] * 2).assign(tail=[1.0] * 14 + [7e8, float("inf")])
    (result,) = coverage(pd.concat([points, points]))
    assert result.verdict == "supported"
    assert [(e.value, e.label) for e in result.estimates] == [(0, "of 28 points")]
    assert any("Left out of the count, since rare prompts carry their energy: mamba" in r for r in result.remarks)
    assert coverage(points.assign(tail=1.0))[0].verdict == "contradicted"
    (none,) = coverage(points.assign(tail=7e8))
    assert (none.verdict, none.condition) == ("not applicable", oh2025.SEEN)


def test_a_tilt_that_rare_prompts_dominate_does_not_contradict_theory(tmp_path: Path) -> None:
    arguments = ["prompts.ambient_dim=6", "prompts.intrinsic_dim=2", "num_examples=[16]", "num_prompts=2048",
                 "prompts.link=tanh(z)*z", "seed=0..4", "exact_to=16"]  # fmt: skip
    results, report = _run("oh2025/alignment", arguments, tmp_path / "run")
    tilted = results.select(learner="exponential", degree=2, num_examples=16).set_index("metric")
    assert tilted["low"]["alignment"] > tilted["value"]["exact_alignment"]  # biased: it lacks the prompts that count
    result = report.claims[0]
    assert result.verdict == "supported"
    assert any("Left out" in r and "exponential, degree 2, N = 16" in r for r in result.remarks)
