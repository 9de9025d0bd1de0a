"""The kinds of the catalogue at tiny sizes: against the library called directly, and in words that follow the "
"numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.evaluation import error_curve
from iclab.experiments.definitions import catalogue_names, load_definition
from iclab.experiments.registry import load_kind
from iclab.experiments.resolved import resolve
from iclab.models import OneLayerMamba
from iclab.pretraining import two_stage
from iclab.prompts import SingleIndex, Stream
from iclab.results.results import Results
from iclab.runs.results import load_results
from iclab.runs.run import run_experiment
from iclab.studies.error.config import ErrorConfig
from iclab.theory import GateMoments

TINY_ERROR = [
    "num_examples=[16,64]",
    "num_prompts=24",
    "num_queries=2",
    "prompts.ambient_dim=6",
    "prompts.intrinsic_dim=2",
    "seed=0..1",
    *(
        f"learners.{name}.pretraining.{key}={value}"
        for name in ("mamba", "degree1", "identity", "no_gate")
        for key, value in (("num_examples", 32), ("stage1_tasks", 64), ("stage2_tasks", 64))
    ),
    *(f"learners.{name}.width=16" for name in ("mamba", "degree1", "identity", "no_gate", "joint")),
    "learners.joint.pretraining.steps=3",
    "learners.joint.pretraining.num_examples=32",
    "learners.kernel_all.tune_prompts=2",
    "learners.kernel_support.tune_prompts=2",
    "learners.kernel_support.max_examples=16",
    "learners.oracle.calibration_tasks=16",
    "learners.oracle_head.calibration_tasks=16",
]


def _run(name: str, arguments: list[str], folder: Path) -> Results:
    threads = torch.get_num_threads()
    run_experiment(resolve(name, arguments), folder, engine="inline", quiet=True)
    torch.set_num_threads(threads)
    return load_results(folder)


@pytest.mark.parametrize("name", catalogue_names())
def test_every_scale_of_the_catalogue_resolves_and_forecasts(name: str) -> None:
    definition = load_definition(name)
    assert definition.question.endswith("?")
    for scale in definition.scale_names:
        resolved = resolve(name, [f"scale={scale}"])
        assert resolved.cells
        # On one core. Beyond the laptop, deep models are for an accelerator or a cluster.
        assert 0 < resolved.seconds < (2 if scale in ("quick", "laptop") else 500) * 24 * 3600


def test_exponents_table_is_that_of_the_theory(tmp_path: Path) -> None:
    results = _run("oh2025/exponents", ["link=he3,he4,z2exp"], tmp_path / "run")
    report = load_kind("exponents").summarise(results)
    assert [row[:3] for row in report.tables[0].rows] == [["he3", "3", "1"], ["he4", "4", "2"], ["z2exp", "4", "4"]]
    (result,) = report.claims
    assert (result.claim.id, result.verdict, result.reason, result.seeds) == ("A1", "supported", "whole interval", 0)
    assert [e.threshold for e in result.estimates] == [1.0] * 4 + [2.0] * 4 + [4.0] * 4  # ge by link, at four gates
    assert [e.value for e in result.estimates] == [e.threshold for e in result.estimates]
    assert report.notes == ["2 of 3 links have ge < ie: for them the gate can help."]


@pytest.mark.usefixtures("no_rendering")
def test_exponents_contradict_the_claim_where_the_numbers_do(tmp_path: Path) -> None:
    """At b = 0 an odd link keeps no degree-1 part: the trap must show, not be smoothed over."""
    results = _run("oh2025/exponents", ["link=he3,he2", "gates=[[1.0,0.0]]"], tmp_path / "run")
    (result,) = load_kind("exponents").summarise(results).claims
    assert result.verdict == "contradicted"
    assert result.estimate is not None
    assert (result.estimate.label, result.estimate.value, result.estimate.threshold) == ("for he3", 2.0, 1.0)


def test_alignment_simulation_lies_on_the_exact_curve(tmp_path: Path) -> None:
    overrides = ["prompts.link=tanh", "prompts.ambient_dim=5", "num_examples=[8,64]", "num_prompts=400", "seed=0..4"]
    results = _run("oh2025/alignment", [*overrides, "exact_to=256"], tmp_path / "run")
    exact = results.select(metric="exact_alignment", learner="mamba", degree=1, num_examples=64)["value"].iloc[0]
    link = SingleIndex(5, 4, "tanh").link.standardised()
    assert exact == pytest.approx(GateMoments(link, 0.1, 0.5, -9.0, 64).alignment(4), abs=1e-12)
    simulated = results.select(metric="alignment", learner="mamba", degree=1, num_examples=64).iloc[0]
    assert simulated["num_prompts"] == 400
    assert simulated["num_seeds"] == 5
    assert abs(simulated["value"] - exact) < 0.03
    report = load_kind("alignment").summarise(results)
    assert [e.label for e in report.claims[0].estimates] == ["of 16 points"]  # 4 gates, 2 lengths, 2 degrees
    labels = {s.label for s in report.figures[0].panels[0].series}
    assert {"mamba", "mamba, exact", "linear", "exponential", "no decay"} <= labels


@pytest.mark.usefixtures("no_rendering")
def test_gate_without_second_moments_is_left_out_and_named(tmp_path: Path) -> None:
    overrides = ["prompts.link=he3", "num_examples=[8]", "num_prompts=16", "seed=0", "exact_to=16"]
    results = _run("oh2025/alignment", overrides, tmp_path / "run")
    assert "exponential" not in set(results.summary["learner"])
    notes = load_kind("alignment").summarise(results).notes
    assert any("exponential is left out" in note for note in notes)


def test_support_measures_what_stage_one_finds(tmp_path: Path) -> None:
    overrides = ["prompts.ambient_dim=8", "prompts.link=tanh", "stage1_tasks=400", "num_examples=16,64", "seed=0..1"]
    results = _run("oh2025/support", overrides, tmp_path / "run")
    rows = results.select(metric="support_auc", learner="mamba gate", degree=1, num_examples=64)
    assert rows["value"].iloc[0] == 1.0
    assert rows["num_seeds"].iloc[0] == 2
    report = load_kind("support").summarise(results)
    assert len(report.figures) == 2
    assert {len(s.x) for s in report.figures[0].panels[0].series} == {2}


@pytest.fixture(scope="module")
def tiny_error(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return _run("oh2025/error", TINY_ERROR, tmp_path_factory.mktemp("error") / "run")


def test_error_equals_the_library_called_directly(tiny_error: Results) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    config = resolve("oh2025/error", TINY_ERROR).cells[0].config
    assert isinstance(config, ErrorConfig)
    prompts = config.prompts.build(0)
    model = OneLayerMamba(6, 16, rho=0.3, b=-15.0)
    two_stage(
        model,
        prompts,
        stream=Stream(0).child("pretraining"),
        num_examples=32,
        stage1_tasks=64,
        stage2_tasks=64,
    )
    batch = prompts.sample(Stream(0).child("evaluation"), 24, 64, 2)
    curve = error_curve({"m": model}, batch, [16, 64])["squared_error"]["m"]
    torch.set_num_threads(threads)
    stored = tiny_error.per_seed
    stored = stored[(stored["learner"] == "Mamba, two-stage") & (stored["seed"] == 0)]
    stored = stored[stored["metric"] == "squared_error"].sort_values("num_examples")
    np.testing.assert_allclose(stored["value"], curve.values, rtol=1e-6)


def test_error_report_pairs_on_the_prompts_that_both_saw(tiny_error: Results) -> None:
    report = load_kind("error").summarise(tiny_error)
    note = next(note for note in report.notes if "kernel ridge, told the support" in note)
    assert "At N = 16" in note  # the kernel stops there
    assert "2 seeds, 24 prompts each" in note
    panel = report.figures[0].panels[0]
    roles = {s.label: s.role for s in panel.series}
    assert roles["Mamba, two-stage"] == "model"
    assert roles["oracle, direction of S_1"] == "ceiling"
    assert roles["exact alignment, Gaussian state"] == "theory"
    assert {x for x, _ in panel.vertical} == {32.0}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("oh2025/error", ["prompts.intrinsic_dim=17"], "intrinsic_dim is 17 and ambient_dim 16"),
        ("oh2025/error", ["num_examples=[100000000000]"], "would take"),
        ("oh2025/error", ["learners.mamba.pretraining.num_examples=100000000000"], "would take"),
        ("oh2025/error", ["theory_gate=kernel_all"], "theory_gate is 'kernel_all'"),
        ("oh2025/error", ["learners.mamba.pretraining.degrees=[3]"], "degrees"),
        ("oh2025/error", ["learners.no_gate.label='Mamba, two-stage'"], "same label"),
        ("oh2025/error", ["prompts.link=1/z"], "cannot be used"),
        ("oh2025/error", ["learners.no_gate.label='zero predictor'"], "which every run measures itself"),
        ("oh2025/error", ["learners.mamba.clip=3"], "clipped"),
        ("oh2025/error", ["learners.mamba.gate=exp", "prompts.link=he3"], "does not exist"),
        ("oh2025/alignment", ["gates.mamba.clip=3"], "clip"),
        ("oh2025/alignment", ["prompts.inputs=uniform"], "gaussian"),
        ("oh2025/alignment", ["num_examples=[0]"], "lengths >= 1"),
        ("oh2025/alignment", ["num_examples=[16,16]"], "distinct lengths"),
        ("oh2025/alignment", ["prompts.rotation=random"], "rotation"),
        ("oh2025/error", ["prompts.rotation=random"], "told a support"),
        ("oh2025/error", ["prompts.inputs=rademacher"], "optimal for gaussian inputs"),
        ("oh2025/support", ["prompts.intrinsic_dim=16", "prompts.ambient_dim=16"], "every coordinate"),
        ("oh2025/support", ["prompts.rotation=random"], "rotat"),
        ("oh2025/support", ["num_examples=1000000000000"], "would take"),
        ("oh2025/exponents", ["link=0*z"], "constant"),
        ("oh2025/exponents", ["gates=[[1,-3],[1,-3]]"], "each pair"),
        ("oh2025/exponents", ["gates=[[1,-3],[1,-1e9]]"], "gates.1 has b = -1e[+]09; expected a number between"),
        ("oh2025/exponents", ["gates=[[0,-3]]"], "gates.0: rho is 0"),
        ("oh2025/alignment", ["exact_to=1000000000000000000000000000"], "exact_to is .*<= 1000000000000"),
        ("oh2025/alignment", ["exact_to=1e30"], "exact_to is 1e[+]30; expected a smaller integer"),
        ("oh2025/alignment", ["num_prompts=1000000000000000"], "num_prompts = 1e[+]15 would take"),
        ("oh2025/alignment", ["gates.mamba.b=-1e9"], "gates.mamba.b is -1000000000.0; expected"),
        ("oh2025/support", ["width=1000000000000"], "width = 1e[+]12 would take"),
        ("oh2025/support", ["start_scale=1e300"], "start_scale is 1e[+]300"),
        ("oh2025/support", ["stage1_tasks=1000000000000000000000"], "stage1_tasks is 1e[+]21: .* years of one core"),
        ("oh2025/error", ["num_examples=[0]"], "a length >= 1 beside it"),
        ("oh2025/error", ["num_examples=[16,16]"], "distinct lengths"),
        ("oh2025/error", ["num_examples=16,32"], r"write num_examples=\[16,32\]"),
        ("oh2025/error", ["prompts.link=[.nan,1]"], "prompts.link.0 is nan; expected a finite number"),
        ("oh2025/error", ["num_prompts=1000000000000000"], "num_prompts = 1e[+]15 would take"),
        ("oh2025/error", ["learners.mamba.b=1e9"], "learners.mamba.b is 1000000000.0; expected a value < 10000"),
        (
            "oh2025/error",
            ["learners.no_decay={kind: one_layer, gate: exp, rho: 1e-3}"],
            "learners.no_decay: .*overflows",
        ),
        ("oh2025/error", ["learners.mamba.pretraining.stage2_examples=[]"], "stage2_examples is .*expected at least 1"),
        (
            "oh2025/error",
            ["learners.mamba.pretraining.stage2_queries=1000000000"],
            "stage2_queries = 1e[+]09 would take",
        ),
        ("oh2025/error", ["learners.mamba.pretraining.start_scale=1e300"], "start_scale is 1e[+]300"),
        ("oh2025/error", ["learners.mamba.pretraining.stage1_tasks=1000000000000000000000"], "stage1_tasks is 1e[+]21"),
        (
            "oh2025/error",
            ["learners.joint.pretraining.num_queries=1000000000"],
            "joint.pretraining.num_queries = 1e[+]09",
        ),
        ("oh2025/error", ["learners.joint.pretraining.steps=1000000000000000"], "steps is 1e[+]15: .* years"),
        ("oh2025/error", ["learners.identity.pretraining.degrees=[2]"], "identity embedding, which has degree 1 alone"),
        ("oh2025/error", ["learners.kernel_all.tune_examples=[0]"], "tune_examples.0 is 0; expected a value >= 1"),
        ("oh2025/error", ["learners.kernel_all.max_examples=4"], "max_examples is 4 and num_examples starts at 32"),
        ("oh2025/error", ["learners.oracle.calibration_tasks=1000000000000000"], "calibration_tasks is 1e[+]15"),
    ],
)
def test_impossible_configurations_are_refused_before_anything_runs(
    name: str, arguments: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        resolve(name, arguments)
    assert "\n" not in str(error.value)
