"""Reports of outlier errors: verdicts from made-up numbers, and what is shown of whatever was varied."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from iclab.claims import ClaimResult
from iclab.claims.li2025 import (
    COLLAPSE,
    FIGURE,
    LEARNED,
    LINEAR_FAILS,
    LINEAR_TOLERATES,
    MAMBA_TOLERATES,
    NO_COLLAPSE,
    POSITIVE_SUM,
    PUBLISHED,
)
from iclab.experiments.registry import load_kind
from iclab.experiments.resolved import resolve
from iclab.results.columns import StoredCell
from iclab.results.grid_points import GridPoint
from iclab.results.page import Report
from iclab.results.results import Results
from iclab.results.tables import per_seed_table, summary_table
from iclab.studies.outliers.error.config import OutlierErrorConfig
from iclab.studies.outliers.error.fraction_claims import fraction_claims, tolerated, tolerated_text
from iclab.studies.outliers.error.pairs import Term, combination
from iclab.studies.outliers.error.study import run_cell
from iclab.studies.outliers.learners import learners_of

TINY = ["prompts.ambient_dim=12", "prompts.relevant=2", "prompts.irrelevant=2", "prompts_per_task=2", "num_queries=2"]
LEARNERS = {
    "placement": ("mamba", "mamba_fast", "linear", "softmax", "mamba3", "linear3", "softmax3"),
    "mitigation": ("usual", "closest", "closest_flipped", "farthest", "fast"),
    "beyond-size": ("mamba", "linear"),
}


def _run(name: str, arguments: list[str], sizes: list[str] = TINY) -> Results:
    """The results of an experiment of the catalogue at a tiny size, without drawing them."""
    steps = [f"learners.{learner}.training.{key}" for learner in LEARNERS[name] for key in ("steps=1", "batch_size=8")]
    resolved = resolve(f"li2025/{name}", [*sizes, *steps, *arguments])
    experiment = resolved.to_json()
    cells = []
    for cell in resolved.cells:
        measured = run_cell(cell.config)  # type: ignore[arg-type]
        record = {
            "id": cell.id,
            "config": cell.to_json(),
            "measurements": [
                {"learner": m.learner, "metric": m.metric, "statistic": m.statistic, "num_examples": m.num_examples,
                 "keys": m.keys}
                for m in measured
            ],
        }  # fmt: skip
        cells.append(StoredCell(record, [m.samples for m in measured]))
    per_seed, samples = per_seed_table(experiment, cells)
    return Results(experiment, {}, per_seed, summary_table(per_seed, samples), tuple(samples))


def _with_errors(results: Results, error: Any) -> Results:
    """The same results with the samples, and the numbers of the tables, that ``error(row)`` gives, after trainings that
    all ended at a loss of zero."""
    table, samples = results.per_seed.copy(), list(results.samples)
    for i, (_, row) in enumerate(table.iterrows()):
        if row["metric"] == "error":
            samples[i] = np.full_like(samples[i], error(row))
        if row["metric"] == "training_loss":
            samples[i] = np.zeros_like(samples[i])
    table["value"] = [sample.mean() for sample in samples]
    return replace(results, per_seed=table, samples=tuple(samples), summary=summary_table(table, samples))


_KINDS = {"m": "gated", "l": "linear", "s": "softmax"}


def _point(errors: dict[str, dict[float, tuple[float, float, float]]], seeds: int = 5, **changes: Any) -> GridPoint:
    learners = {key: {"kind": kind, "training": {"gate_learning_rate": 0.02}} for key, kind in _KINDS.items()}
    given = {"learners": learners} | changes
    config = OutlierErrorConfig.model_validate(given).model_dump(mode="json")
    length = config["test"]["num_examples"]
    rows = [
        {"learner": name, "outlier_fraction": alpha, "value": value, "low": low, "high": high, "num_examples": length,
         "interval": "bootstrap" if seeds >= 5 else "range", "num_prompts": 100, "num_seeds": seeds}
        for name, curve in errors.items()
        for alpha, (low, value, high) in curve.items()
    ]  # fmt: skip
    return GridPoint("", {}, pd.DataFrame(rows), config)


GOOD = {0.2: (0.0, 0.0, 0.0), 0.5: (0.001, 0.002, 0.004), 0.8: (0.004, 0.006, 0.009)}
BAD = {0.2: (0.0, 0.0, 0.0), 0.5: (0.021, 0.03, 0.04), 0.8: (0.2, 0.3, 0.4)}
UNSURE = {0.2: (0.0, 0.0, 0.0), 0.5: (0.01, 0.015, 0.03), 0.8: (0.005, 0.02, 0.03)}


def _verdicts(found: Sequence[ClaimResult]) -> list[tuple[str, str]]:
    return [(result.claim.id, result.verdict) for result in found]


@pytest.mark.parametrize(
    ("curve", "verdicts", "reasons"),
    [
        (GOOD, ["supported"] * 2, ["whole interval"] * 2),
        (BAD, ["undecided", "contradicted"], ["refutes nothing", "whole interval"]),
        (UNSURE, ["undecided"] * 2, ["straddles"] * 2),
    ],
)
def test_mamba_is_judged_by_whole_intervals(curve: dict, verdicts: list[str], reasons: list[str]) -> None:
    found = fraction_claims(_point({"Mamba": curve}))
    assert [result.claim for result in found] == [FIGURE, MAMBA_TOLERATES]
    assert [result.verdict for result in found] == verdicts
    assert [result.reason for result in found] == reasons
    assert {(result.subject, result.seeds, result.prompts) for result in found} == {("Mamba", 5, 100)}
    figure, guarantee = found
    assert [e.value for e in figure.estimates] == [curve[0.8][1]]
    assert [e.label for e in guarantee.estimates] == ["at alpha = 0.2", "at alpha = 0.5"]  # below p_a l_tr / l_ts = 0.6
    assert guarantee.estimate is not None
    assert guarantee.estimate.value == curve[0.5][1]
    assert any("0.012 of such prompts has no clean example" in remark for remark in figure.remarks)
    few = fraction_claims(_point({"Mamba": curve}, seeds=3))
    assert [(result.verdict, result.reason) for result in few] == [("undecided", "few seeds")] * 2


def test_no_wrong_prompt_is_not_an_error_of_exactly_zero() -> None:
    """Of 500 prompts none was wrong: the error may still be 3/500 = 0.006, but of 100 it may be 0.03."""
    rows = _point({"Mamba": {0.1: (0.0, 0.0, 0.0)}}).rows
    assert tolerated(rows, 0.01) == 0.1
    assert tolerated(rows.assign(num_prompts=20), 0.01) is None


def test_a_tolerated_share_beyond_the_measured_ones_is_a_bound() -> None:
    good, bad = (0.001, 0.0005, 0.002), (0.5, 0.4, 0.6)
    assert tolerated_text(_point({"Mamba": {0.1: good, 0.4: good}}).rows, 0.01) == ">= 0.4"
    assert tolerated_text(_point({"Mamba": {0.1: good, 0.4: bad}}).rows, 0.01) == "0.1"
    assert tolerated_text(_point({"Mamba": {0.1: bad, 0.4: bad}}).rows, 0.01) == "< 0.1"


def test_other_settings_than_the_papers_have_no_published_figure() -> None:
    others: list[dict[str, Any]] = [
        {"prompts": {"outliers": 4}, "test": {"coefficients": None}},
        {"test": {"num_examples": 40}},
        {"test": {"orthogonal": 1.0}},
        {"prompts": {"outlier_fraction": 0.5}},
    ]
    for changes in others:
        found = fraction_claims(_point({"Mamba": GOOD}, **changes))
        assert [result.claim for result in found] == [MAMBA_TOLERATES]


@pytest.mark.parametrize(
    "changes",
    [
        {"prompts": {"label_rule": "flipped"}},
        {"prompts": {"irrelevant_range": 5.0}},
        {"prompts": {"placement": "closest"}},
        {"prompts": {"coefficients": [[1.0, 1.0, 0.0]]}},
        {"prompts": {"input_noise": 0.1}},
        {"prompts": {"outlier_size": 0.0}},
        {"prompts": {"tasks": [[0, 1]]}},
        {"test": {"outlier_size": 0.0}},
        {"learners": {"m": {"kind": "gated", "start": 0.5}}},
        {"test": {"input_noise": 0.1}},
        {"test": {"placement": "closest"}},
        {"learners": {"m": {"kind": "gated", "prompts": {"placement": "closest"}}}},
        {"learners": {"m": {"kind": "gated", "depth": 2}}},
    ],
)
def test_what_the_theorems_do_not_treat_is_not_judged(changes: dict[str, Any]) -> None:
    assert not fraction_claims(_point({"Mamba": BAD}, **changes))


def test_prompts_without_a_clean_example_refute_nothing() -> None:
    short = {0.3: (0.001, 0.002, 0.003), 0.8: (0.3, 0.33, 0.36)}  # the share at alpha = 0.8 and l = 5 is 0.328
    found = fraction_claims(_point({"Mamba": short}, test={"num_examples": 5}))
    (guarantee,) = [result for result in found if result.claim is MAMBA_TOLERATES]
    assert (guarantee.verdict, guarantee.reason) == ("undecided", "measured too little")  # 0.3 is far from 1
    assert [estimate.label for estimate in guarantee.estimates] == ["at alpha = 0.3"]
    for low, verdict in ((0.021, "undecided"), (0.04, "contradicted")):  # the share at alpha = 0.45 is 0.018
        curve = {0.45: (low, 0.05, 0.06)}
        (result,) = fraction_claims(_point({"Mamba": curve}, test={"num_examples": 5}))
        assert result.verdict == verdict
        assert result.estimates[0].slack == pytest.approx(0.45**5)
    (long,) = fraction_claims(_point({"Mamba": {0.6: (0.0, 0.001, 0.002)}}, test={"num_examples": 10}))
    assert long.verdict == "supported"


def test_a_sweep_of_the_training_distribution_is_none_of_the_test_distribution() -> None:
    axes = ["seed=0..4", "axes.outlier_fraction=null", "axes.outlier_size=null", "test.outlier_fraction=0.0"]
    results = _run("beyond-size", [*axes, "prompts.outlier_fraction=0.1,0.8", "prompts.placement=random,closest"])
    report = load_kind("outlier_error").summarise(_with_errors(results, lambda row: 0.3))
    assert "tolerated" not in [table.name for table in report.tables]
    assert not any("placement" in figure.name for figure in report.figures)
    assert not {COLLAPSE.id, NO_COLLAPSE.id} & {result.claim.id for result in report.claims}
    assert not any("0.8" in estimate.label for result in report.claims for estimate in result.estimates)
    assert any("p_a = 0.8" in panel.title for panel in report.figures[0].panels)
    swept = _run("beyond-size", ["seed=0", "axes.outlier_fraction=null", "test.outlier_fraction=0.1,0.6"])
    titles = [figure.name for figure in load_kind("outlier_error").summarise(swept).figures]
    assert titles[:2] == ["error", "error-small"]  # alpha, swept as a key of the section test, is alpha


def test_one_alpha_is_judged() -> None:
    results = _run("beyond-size", ["seed=0..4", "axes.outlier_fraction=[0.6]", "axes.outlier_size=null"])
    claims = load_kind("outlier_error").summarise(_with_errors(results, lambda row: 0.9)).claims
    failing = [result for result in claims if result.claim == LINEAR_FAILS]
    assert {result.verdict for result in failing} == {"supported"}
    assert {estimate.label for result in failing for estimate in result.estimates} == {"at alpha = 0.6"}


def test_trainings_that_did_not_learn_are_no_evidence() -> None:
    results = _run("beyond-size", ["seed=0..4", "axes.outlier_fraction=[0.3,0.6]", "axes.outlier_size=null"])
    table, samples = results.per_seed.copy(), list(results.samples)
    high = (table["metric"] == "training_loss") & (table["learner"] == "linear Transformer")
    for i in np.flatnonzero(high):
        samples[i] = np.full_like(samples[i], 0.4)
    table.loc[high, "value"] = 0.4
    untrained = replace(results, per_seed=table, samples=tuple(samples), summary=summary_table(table, samples))
    claims = load_kind("outlier_error").summarise(untrained).claims
    linear = [result for result in claims if result.subject == "linear Transformer"]
    assert {(result.verdict, result.condition) for result in linear} == {("not applicable", LEARNED)}
    assert {result.remarks[-1] for result in linear} == {"The last window of its training has a mean loss of 0.4."}


def test_outliers_outside_the_theorem_give_no_verdict() -> None:
    found = fraction_claims(_point({"Mamba": BAD}, test={"coefficients": [[1.0, -1.0, 0.0]]}))
    assert [(result.verdict, result.condition) for result in found] == [("not applicable", POSITIVE_SUM)]


@pytest.mark.parametrize(
    ("beyond", "verdict"),
    [((0.7, 0.8, 0.9), "supported"), ((0.1, 0.2, 0.3), "contradicted"), ((0.45, 0.52, 0.6), "undecided")],
)
def test_linear_attention_fails_where_flipped_labels_are_the_majority(beyond: tuple, verdict: str) -> None:
    curve = {0.4: (0.1, 0.2, 0.3), 0.5: (0.4, 0.5, 0.6), 0.6: beyond}
    found = fraction_claims(_point({"linear Transformer": curve}))
    # 0.2 at alpha = 0.4 is not small.
    assert _verdicts(found) == [(LINEAR_TOLERATES.id, "contradicted"), (LINEAR_FAILS.id, verdict)]
    assert [estimate.value for estimate in found[1].estimates] == [beyond[1]]  # alpha = 0.5 is on neither side
    assert "At alpha = 0.5 the error is 0.5 (0.4 to 0.6)." in found[1].remarks
    small = {0.3: (0.0, 0.001, 0.002), 0.4: (0.001, 0.002, 0.004), 0.6: (0.7, 0.8, 0.9)}
    (kept,) = fraction_claims(_point({"linear Transformer": small}, test={"label_rule": "random"}))
    assert kept.verdict == "supported"


def test_guarantees_follow_the_training_of_each_learner() -> None:
    config = OutlierErrorConfig.model_validate(
        {
            "learners": {
                "a": {"kind": "gated", "training": {"num_examples": 30}},
                "b": {"kind": "gated", "label": "b", "prompts": {"outlier_fraction": 0.4}},
                "c": {"kind": "linear"},
                "d": {"kind": "softmax"},
                "e": {"kind": "gated", "depth": 3},
            }
        }
    )
    found = [learner.guarantee(40) for learner in learners_of(config.model_dump(mode="json"))]
    assert found == [pytest.approx(0.45), pytest.approx(0.2), 0.5, None, None]
    assert learners_of(config.model_dump(mode="json"))[0].guarantee(10) == 1.0


@pytest.fixture(scope="module")
def placement() -> Results:
    return _run("placement", ["seed=0..4", "axes.outlier_fraction=[0.5,0.8]", "axes.label_rule=[random]"])


@pytest.fixture(scope="module")
def papers_placement() -> Results:
    distributions = ["axes.outlier_fraction=[0.5,0.8]", "axes.label_rule=[random,flipped]"]
    return _run("placement", ["seed=0..4", "prompts_per_task=1", "num_queries=1", *distributions], sizes=[])


def test_placement_is_judged_pair_by_pair_in_the_published_setting(papers_placement: Results) -> None:
    def collapse(row: pd.Series) -> float:
        gated = row["learner"].startswith("Mamba")
        return 0.05 + 0.001 * row["seed"] + (0.2 if gated and row["placement"] == "closest" else 0.0)

    def judged(error: Any) -> dict[str, ClaimResult]:
        claims = load_kind("outlier_error").summarise(_with_errors(papers_placement, error)).claims
        about = [result for result in claims if result.claim in (COLLAPSE, NO_COLLAPSE)]
        assert len(about) == 14
        assert {result.settings["outlier_fraction"] for result in about} == {0.5}
        verdicts = {result.subject: result for result in about if result.verdict != "not applicable"}
        assert {result.settings["label_rule"] for result in verdicts.values()} == {"random"}
        assert {r.condition for r in about if r.verdict == "not applicable"} == {PUBLISHED}
        return verdicts

    deep = ["Mamba, 3 layers", "linear, 3 layers", "softmax, 3 layers"]
    # Seeds differ, and pairs do not: the gap is 20 points without any spread.
    found = judged(collapse)
    assert {name: result.verdict for name, result in found.items()} == dict.fromkeys(deep, "supported")
    estimate, interval = found[deep[0]].estimate, found[deep[0]].interval
    assert estimate is not None
    assert interval is not None
    assert (estimate.value, interval.low, interval.high) == (pytest.approx(20),) * 3
    even = judged(lambda row: 0.05)
    assert [even[name].verdict for name in deep] == ["contradicted", "supported", "supported"]
    far = judged(lambda row: 0.1 if row["placement"] == "farthest" else 0.05)
    assert [far[name].verdict for name in deep[1:]] == ["contradicted"] * 2


def test_placement_table_quotes_only_the_published_setting(placement: Results, papers_placement: Results) -> None:
    report = load_kind("outlier_error").summarise(papers_placement)
    table = next(table for table in report.tables if table.name == "placement")
    quoted = {(row[1], row[2]): row[4] for row in table.rows if row[4] is not None}
    assert len(quoted) == 9
    assert quoted["Mamba, 3 layers", "closest"] == 82.73
    assert all("alpha = 0.5" in str(row[0]) for row in table.rows if row[4] is not None)
    roles = [s.role for panel in report.figures[0].panels for s in panel.series]
    assert roles.count("quoted") == 9
    other = load_kind("outlier_error").summarise(placement)
    assert not any(s.role == "quoted" for panel in other.figures[0].panels for s in panel.series)


def test_combinations_are_those_of_the_samples(placement: Results) -> None:
    key = {"outlier_fraction": 0.8, "placement": "closest"}
    terms = [Term(1.0, "Mamba, 1 layer", key), Term(-0.5, "linear, 1 layer", {**key, "placement": "random"})]
    found = combination(placement, terms)
    table = placement.per_seed
    expected = 0.0
    for term in terms:
        chosen = (table["learner"] == term.learner) & (table["metric"] == "error")
        for column, value in term.key.items():
            chosen &= table[column] == value
        expected += term.weight * float(table[chosen]["value"].mean())
    assert found is not None
    assert found.value == pytest.approx(expected)
    assert found.num_seeds == 5
    assert found.num_prompts == 4
    assert combination(placement, [Term(1.0, "nobody", key)]) is None


def test_mitigation_says_what_is_won_and_what_it_costs() -> None:
    axes = ["seed=0..4", "axes.outlier_fraction=[0.5]", "axes.label_rule=[random]"]
    results = _run("mitigation", axes)

    def won_back(row: pd.Series) -> float:
        if row["placement"] != "closest":
            return 0.03 if row["learner"] == "trained closest" else 0.01
        return {"trained at random places": 0.21, "trained closest": 0.05}.get(row["learner"], 0.2)

    notes = load_kind("outlier_error").summarise(_with_errors(results, won_back)).notes  # no claim of the paper
    undone = {note.split("'")[1]: note for note in notes if "undo the collapse" in note}
    assert len(undone) == 4
    assert "wins back 80 %. More than half: yes." in undone["trained closest"]
    assert "random -2 (-2 to -2); closest 16 (16 to 16)" in undone["trained closest"]
    assert "More than half: no." in undone["trained farthest"]


def test_training_and_test_keys_have_the_papers_letters_and_figures_of_their_own() -> None:
    axes = ["seed=0", "axes.outlier_fraction=[0.3,0.6]", "prompts.outlier_size=1,2,3,4"]
    results = _run("beyond-size", axes)
    report: Report = load_kind("outlier_error").summarise(results)
    assert [figure.name for figure in report.figures] == [
        "error", "error-small", "error-prompts-outlier-size", "error-outlier-size",
    ]  # fmt: skip
    panels = {figure.name: [panel.title for panel in figure.panels] for figure in report.figures}
    assert "kappa_a = 1, kappa_a' = 0.5" in panels["error"]
    assert len(panels["error"]) == 20
    assert {label for _, label in report.figures[0].panels[0].vertical} == {
        "p_a l_tr/l_ts (published, Mamba)",
        "1/2 (published, linear)",
    }
    for figure in report.figures:
        for panel in figure.panels:
            assert all(len(set(series.x)) == len(series.x) for series in panel.series)
