"""Any learner on any prompts is configuration: a matrix of tiny cells, own objects, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.evaluation import Measurement
from iclab.experiments.registry import load_kind
from iclab.experiments.resolved import resolve
from iclab.prompts import OutlierClassification, SingleIndex, Stream, label_variance
from iclab.runs.run import run_experiment
from iclab.studies.error.config import ErrorConfig
from iclab.studies.error.names import ZERO
from iclab.studies.outliers.error.config import OutlierErrorConfig

ERROR, OUTLIERS = load_kind("error"), load_kind("outlier_error")

FAMILIES: dict[str, dict] = {
    "single_index": {"kind": "single_index", "ambient_dim": 4, "intrinsic_dim": 2},
    "outliers": {"kind": "outlier_classification", "ambient_dim": 8, "relevant": 3, "irrelevant": 2, "outliers": 2},
    "regression": {"kind": "own", "family": "own_axes:Regression"},
    "plain": {"kind": "own", "family": "own_axes:Plain"},
    "signs": {"kind": "own", "family": "own_axes:Signs"},
}
SGD = {"num_examples": 4, "steps": 3, "batch_size": 4}
LEARNERS: dict[str, dict] = {
    "algorithm1": {
        "kind": "one_layer",
        "width": 8,
        "b": -2.0,
        "pretraining": {"kind": "two_stage", "num_examples": 8, "stage1_tasks": 16, "stage2_tasks": 16},
    },
    "joint": {
        "kind": "one_layer",
        "width": 8,
        "b": -2.0,
        "pretraining": {"kind": "joint", "num_examples": 8, "steps": 2, "batch_size": 8},
    },
    "gated": {"kind": "gated", "training": SGD},
    "linear": {"kind": "linear", "training": SGD},
    "softmax": {"kind": "softmax", "training": SGD},
    "gated2": {"kind": "gated", "depth": 2, "training": SGD},
    **{
        kind: {
            "kind": "deep",
            "backbone": {"kind": kind, "width": 8, "depth": 1},
            "training": {"num_examples": 4, "steps": 2, "batch_size": 8, "evaluation_prompts": 8, "evaluate_every": 1},
        }
        for kind in ("mamba", "gpt2", "linear_attention")
    },
    "kernel": {"kind": "kernel_ridge", "tune_prompts": 2, "tune_examples": [4]},
    "kernel_support": {"kind": "kernel_ridge", "coordinates": "support", "tune_prompts": 2, "tune_examples": [4]},
    "ridge": {"kind": "ridge", "penalty": 0.5},
    "bayes": {"kind": "ridge", "penalty": "bayes", "noise_variance": 0.1},
    "squares": {"kind": "least_squares", "coordinates": "support"},
    "neighbours": {"kind": "nearest_neighbours"},
    "zero": {"kind": "zero"},
    "head": {"kind": "head_readout", "b": -2.0, "calibration_tasks": 8},
    "direction": {"kind": "direction_readout", "b": -2.0, "calibration_tasks": 8},
    "ones": {"kind": "own", "learner": "own_axes:Ones", "arguments": {"value": 1.0}},
    "shrunk": {"kind": "own", "learner": "own_axes:Shrunk"},
}
_HINGE = dict.fromkeys(("gated", "linear", "softmax", "gated2"), "hinge loss")
_TOLD = dict.fromkeys(("kernel_support", "squares", "head", "direction"), "is told a support")
_SIGNS = {"algorithm1": "Algorithm 1 regresses real labels"}
IMPOSSIBLE: dict[str, dict[str, str]] = {
    "single_index": _HINGE,
    "outliers": _SIGNS | _TOLD,
    "regression": _HINGE | {"direction": "reads a single-index link"},
    "plain": _HINGE | _TOLD,
    "signs": _SIGNS | {"direction": "reads a single-index link"},
}


def error_config(family: str, *learners: str, **changes: object) -> ErrorConfig:
    raw = {
        "prompts": FAMILIES[family],
        "learners": {name: LEARNERS[name] for name in learners},
        "theory_gate": None,
        "num_examples": [1, 6],
        "num_prompts": 8,
        "num_queries": 2,
    }
    return ErrorConfig.model_validate(raw | changes)


def outlier_config(*learners: str, **changes: object) -> OutlierErrorConfig:
    raw = {
        "prompts": FAMILIES["outliers"],
        "learners": {name: LEARNERS[name] for name in learners},
        "test": {"num_examples": 5, "coefficients": None},
        "axes": {"outlier_fraction": [0.0, 0.5]},
        "prompts_per_task": 2,
        "num_queries": 2,
    }
    return OutlierErrorConfig.model_validate(raw | changes)


def of(measured: list[Measurement], learner: str, metric: str) -> list[Measurement]:
    return [m for m in measured if (m.learner, m.metric) == (learner, metric)]


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_learner_is_measured_on_every_family_or_refused_in_one_line(family: str, learner: str) -> None:
    config = error_config(family, learner)
    reason = IMPOSSIBLE[family].get(learner)
    if reason is not None:
        with pytest.raises(InputError, match=rf"learners\.{learner}.*{reason}") as caught:
            ERROR.check(config)
        assert "\n" not in str(caught.value)
        return
    ERROR.check(config)
    measured = list(ERROR.run_cell(config))
    for metric in ("squared_error", *(["zero_one_error"] if family in ("outliers", "signs") else [])):
        found = of(measured, learner, metric)
        assert [m.num_examples for m in found] == [1, 6]
        assert all(m.samples.shape == (1, 8) and np.isfinite(m.samples).all() for m in found)
    assert bool(of(measured, learner, "zero_one_error")) == (family in ("outliers", "signs"))


@pytest.mark.parametrize("learner", sorted(LEARNERS.keys() - IMPOSSIBLE["outliers"].keys()))
def test_every_learner_is_measured_on_test_prompts_with_outliers(learner: str) -> None:
    config = outlier_config(learner)
    OUTLIERS.check(config)
    measured = list(OUTLIERS.run_cell(config))
    name = {"gated": "Mamba", "linear": "linear Transformer", "softmax": "softmax attention"}.get(learner, learner)
    found = of(measured, "Mamba, 2 layers" if learner == "gated2" else name, "error")
    assert len(found) == 2
    assert all(m.samples.shape == (1, 12) and 0 <= m.value <= 1 for m in found)  # 6 tasks of 2 prompts


@pytest.mark.parametrize("learner", sorted(IMPOSSIBLE["outliers"]))
def test_what_is_impossible_on_outliers_is_refused_there_too(learner: str) -> None:
    with pytest.raises(InputError, match=rf"learners\.{learner}.*{IMPOSSIBLE['outliers'][learner]}"):
        OUTLIERS.check(outlier_config(learner))


def test_predictions_on_outliers_see_no_answers_and_classify_by_sign() -> None:
    measured = list(OUTLIERS.run_cell(outlier_config("ones", "zero")))
    # Half of the labels are +1, up to chance; an output of zero is no answer.
    assert all(0.2 < m.value < 0.8 for m in of(measured, "ones", "error"))
    assert {m.value for m in of(measured, "zero", "error")} == {1.0}


def test_errors_of_own_families_are_in_units_of_the_variance_of_their_labels() -> None:
    config = error_config("regression", "squares", num_prompts=512, num_examples=[3])
    measured = list(ERROR.run_cell(config))
    assert of(measured, ZERO, "squared_error")[0].value == pytest.approx(1, abs=0.15)  # E <w, x>^2 = 1, estimated scale
    assert of(measured, "squares", "squared_error")[0].value < 1e-9  # three examples determine two weights
    signs = list(ERROR.run_cell(error_config("signs", "ones", num_prompts=512)))
    assert [m.value for m in of(signs, ZERO, "squared_error")] == [1, 1]
    assert of(signs, "ones", "squared_error")[0].value == 4 * of(signs, "ones", "zero_one_error")[0].value


def test_the_variance_of_labels_is_known_or_estimated_about_their_mean() -> None:
    from own_axes import Regression, Signs

    assert label_variance(SingleIndex(4, 2, [0, 0, 3]), Stream(0)) == pytest.approx(
        9
    )  # 3 times a normalised polynomial
    assert label_variance(OutlierClassification(), Stream(0)) == 1
    assert label_variance(Signs(), Stream(0)) == 1
    assert label_variance(Regression(offset=5.0), Stream(0)) == pytest.approx(1, abs=0.1)
    constant = Regression()
    constant.label_variance = 0.0
    with pytest.raises(InputError, match="label_variance of Regression"):
        label_variance(constant, Stream(0))


def test_an_own_learner_is_pretrained_on_the_prompts_of_the_cell_and_repeats_itself() -> None:
    section = error_config("regression", "shrunk").learners["shrunk"]
    setting = error_config("regression", "shrunk").setting
    first, _ = section.fit("shrunk", setting)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    second, _ = section.fit("shrunk", setting)
    assert torch.equal(torch.get_rng_state(), before)
    assert (first.factor, first.start) == (second.factor, second.start)  # type: ignore[attr-defined]
    assert first.factor == pytest.approx(1, abs=1e-4)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompts": {"kind": "own", "family": "own_axes"}}, "prompts.family is 'own_axes'; expected module:object"),
        ({"prompts": {"kind": "own", "family": "own_axes:Nothing"}}, "own_axes has no 'Nothing'"),
        ({"prompts": {"kind": "own", "family": "no_such_module:A"}}, "cannot be imported"),
        ({"prompts": {"kind": "own", "family": "own_axes:NOT_CALLABLE"}}, "is int; expected a class or a function"),
        ({"prompts": {"kind": "own", "family": "own_axes:Ones"}}, "expected a prompt distribution"),
        ({"prompts": {"kind": "own", "family": "own_axes:broken"}}, "cannot be built (RuntimeError: no such thing)"),
        (
            {"prompts": {"kind": "own", "family": "own_axes:Regression", "arguments": {"dim": 3}}},
            "does not take these arguments (got an unexpected keyword argument 'dim')",
        ),
        (
            {"prompts": {"kind": "own", "family": "own_axes:Regression", "arguments": {"active": 9}}},
            "prompts.family 'own_axes:Regression': active is 9; expected at most 4",
        ),
        (
            {"learners": {"a": {"kind": "own", "learner": "own_axes:Regression"}}},
            "learners.a.learner 'own_axes:Regression' gives an object of type Regression; expected one with a method",
        ),
        (
            {"learners": {"a": {"kind": "own", "learner": "own_axes:Ones", "max_examples": 0}}},
            "max_examples",
        ),
        (
            {"learners": {"a": {"kind": "own", "learner": "own_axes:Ones", "max_examples": 2}}, "num_examples": [4]},
            "learners.a.max_examples is 2 and num_examples starts at 4",
        ),
        (
            {"learners": {"a": LEARNERS["joint"]}, "theory_gate": "a"},
            "theory_gate is 'a' and prompts.kind 'own'; the exact curve is for single-index prompts",
        ),
        ({"learners": {"a": {"kind": "ridge", "penalty": "bayes"}}}, 'learners.a: penalty is "bayes" without'),
        (
            {
                "learners": {
                    "a": {"kind": "deep", "training": {"curriculum": {"noise": {"until": 9}}}},
                }
            },
            "learners.a.training: curriculum.noise is no scalar of Regression; expected one of num_examples",
        ),
        (
            {
                "prompts": {"kind": "own", "family": "own_axes:Listed"},
                "learners": {"a": {"kind": "deep", "training": {"curriculum": {"active": {"until": 9}}}}},
            },
            "scalars() of Listed returns ['active']; expected a mapping of names to numbers",
        ),
        (
            {
                "prompts": {"kind": "own", "family": "own_axes:Regression", "arguments": {"offset": "wide"}},
                "learners": {"a": LEARNERS["joint"]},
            },
            "prompts.family 'own_axes:Regression' cannot draw prompts (TypeError: ",
        ),
    ],
)
def test_bad_own_objects_are_one_line(changes: dict, message: str) -> None:
    with pytest.raises((InputError, ValueError)) as caught:
        ERROR.check(error_config("regression", "ridge", **changes))
    assert message in str(caught.value)


def test_reach_beyond_a_learner_is_refused_on_test_prompts() -> None:
    short = {"kind": "own", "learner": "own_axes:Ones", "max_examples": 4}
    with pytest.raises(InputError, match=r"learners.a.max_examples is 4 and contexts have up to 5 examples"):
        OUTLIERS.check(outlier_config(learners={"a": short}))


def test_outliers_grow_in_a_curriculum() -> None:
    deep = LEARNERS["mamba"] | {
        "training": {
            "num_examples": 4,
            "steps": 9,
            "batch_size": 8,
            "evaluation_prompts": 8,
            "curriculum": {"outlier_fraction": {"start": 0.0, "until": 6, "num_steps": 3}},
        }
    }
    config = outlier_config(prompts=FAMILIES["outliers"] | {"outlier_fraction": 0.6}, learners={"deep": deep})
    OUTLIERS.check(config)
    ramp = config.learners["deep"].training.make_curriculum(config.prompts.build(0))  # type: ignore[union-attr]
    assert [ramp.values(step)["outlier_fraction"] for step in (0, 2, 4, 6)] == pytest.approx([0, 0.2, 0.4, 0.6])
    assert of(list(OUTLIERS.run_cell(config)), "deep", "error")


def test_changed_outliers_of_one_learner_need_prompts_with_outliers() -> None:
    changed = LEARNERS["gated"] | {"prompts": {"placement": "closest"}}
    with pytest.raises(InputError, match=r"learners\.a\.prompts: a Signs has no placement to change"):
        ERROR.check(error_config("signs", learners={"a": changed}))


def test_prompts_without_a_kind_are_single_index_and_naming_it_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text(
        "title: t\nquestion: q\nkind: error\n"
        "config: {theory_gate: null, prompts: {ambient_dim: 5, link: he2}, learners: {a: {kind: zero}}}\n"
    )
    name = str(tmp_path / "plain.yaml")
    usual = resolve(name).cells[0]
    assert usual.config.prompts.kind == "single_index"  # type: ignore[attr-defined]
    assert resolve(name, ["prompts.kind=single_index"]).cells[0].id == usual.id
    other = resolve(name, ["prompts.kind=outlier_classification"]).cells[0].config
    assert other.prompts.ambient_dim == 30  # type: ignore[attr-defined]


def test_the_code_of_own_objects_counts_with_the_cells_that_name_them(tmp_path: Path, monkeypatch) -> None:
    from iclab.code_version import code_version

    monkeypatch.syspath_prepend(tmp_path)
    for name in ("own_first", "own_second"):
        (tmp_path / f"{name}.py").write_text("from own_axes import Regression as Family\n")

    def code(prompts: dict) -> str | None:
        code_version.cache_clear()
        return ERROR.code(error_config("single_index", "ridge", prompts=prompts))

    first, second = ({"kind": "own", "family": f"{name}:Family"} for name in ("own_first", "own_second"))
    before = [code(FAMILIES["single_index"]), code(first), code(second)]
    assert None not in before
    assert len(set(before)) == 3
    (tmp_path / "own_first.py").write_text("from own_axes import Plain as Family\n")
    after = [code(FAMILIES["single_index"]), code(first), code(second)]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]


@pytest.mark.parametrize("family", ["regression", "outliers"])
def test_a_run_on_other_prompts_ends_with_a_page(family: str, tmp_path: Path) -> None:
    import yaml

    config = error_config(family, "joint", "mamba", "kernel", "ones").model_dump(mode="json")
    config["learners"]["no_gate"] = config["learners"]["joint"] | {"gate": "linear", "role": "ablation"}
    del config["seed"]
    definition = {"title": "t", "question": "q", "kind": "error", "config": config}
    definition["scales"] = {"laptop": {"grid": {"seed": [0, 1]}}}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(definition))
    outcome = run_experiment(resolve(str(tmp_path / "tiny.yaml")), tmp_path / "run", engine="inline", quiet=True)
    assert (outcome.failed, outcome.note) == ({}, "")
    assert (tmp_path / "run" / "report.html").exists()
