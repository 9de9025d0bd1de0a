"""Settings: limits, changes, and the sections of configuration that derive from them."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from iclab.errors import InputError
from iclab.experiments.sections.deep import Training
from iclab.experiments.sections.one_layer import Joint, TwoStage
from iclab.experiments.sections.outliers import HingeTraining
from iclab.models import GatedLinearAttention, OneLayerMamba
from iclab.pretraining import Curriculum, Ramp, hinge_sgd, joint, train, two_stage
from iclab.prompts import CHUNK, OutlierClassification, SingleIndex, Stream
from iclab.settings import HingeSettings, JointSettings, TrainSettings, TwoStageSettings
from iclab.settings.fields import hints_of, meanings_of, with_changes
from train_support import build, distribution, weights

ALL = (TrainSettings, HingeSettings, JointSettings, TwoStageSettings)
SECTIONS = {TrainSettings: Training, HingeSettings: HingeTraining, JointSettings: Joint, TwoStageSettings: TwoStage}


@pytest.mark.parametrize("cls", ALL)
def test_every_setting_has_a_meaning_and_nothing_else_has(cls: type):
    meanings = meanings_of(cls)
    assert list(meanings) == [field.name for field in dataclasses.fields(cls)] == list(hints_of(cls))
    assert all(len(meaning) > 10 and "\n" not in meaning for meaning in meanings.values())


WRONG: list[tuple[type, dict[str, Any], str]] = [
    (TrainSettings, {"steps": 2.0}, "steps is 2.0; expected an integer >= 1"),
    (TrainSettings, {"steps": True}, "steps is True; expected an integer >= 1"),
    (TrainSettings, {"learning_rate": float("nan")}, "learning_rate is nan; expected a finite number > 0"),
    (TrainSettings, {"learning_rate": "0.1"}, "learning_rate is '0.1'; expected a finite number > 0"),
    (TrainSettings, {"average": 1}, "average is 1; expected a finite number > 0 and < 1 or None"),
    (TrainSettings, {"autocast": "float16"}, "autocast is 'float16'; expected bfloat16 or None"),
    (TrainSettings, {"betas": 0.9}, "betas is 0.9; expected 2 values, each a finite number >= 0 and < 1"),
    (TrainSettings, {"curriculum": {}}, "curriculum is {}; expected a Curriculum"),
    (HingeSettings, {"gradients": None}, "gradients is None; expected one of auto, autograd"),
    (HingeSettings, {"gate_learning_rate": -1}, "gate_learning_rate is -1; expected a finite number >= 0 or None"),
    (
        TwoStageSettings,
        {"degrees": [0, True]},
        "degrees is [0, True]; expected one or more values, each one of",
    ),
    (TwoStageSettings, {"stage2_examples": []}, "stage2_examples is []; expected one or more values, each an integer"),
    (JointSettings, {"batch_size": 12}, "batch_size is 12; expected an integer >= 8 and a multiple of 8"),
]
SIZES = dict.fromkeys(("num_examples", "steps", "stage1_tasks", "stage2_tasks"), 8)


@pytest.mark.parametrize(("cls", "change", "message"), WRONG)
def test_what_is_out_of_range_is_named(cls: type, change: dict[str, Any], message: str):
    names = {field.name for field in dataclasses.fields(cls)}
    sizes = {name: size for name, size in SIZES.items() if name in names}
    with pytest.raises(InputError) as caught:
        cls(**{**sizes, **change})
    assert message in str(caught.value)


def test_numbers_are_stored_as_their_type_has_them():
    found = TrainSettings(num_examples=np.int64(4), steps=8, learning_rate=1, betas=np.array([0.5, 0.25]))  # type: ignore[arg-type]
    assert (type(found.num_examples), type(found.learning_rate)) == (int, float)
    assert found.betas == (0.5, 0.25)
    assert TrainSettings(num_examples=4, steps=8, clip_norm=torch.tensor(2.0)).clip_norm == 2.0  # type: ignore[arg-type]
    assert TwoStageSettings(num_examples=4, stage1_tasks=1, stage2_tasks=1, stage2_examples=6).stage2_lengths == (6,)  # type: ignore[arg-type]


def test_changes_are_looked_up_by_name():
    given = HingeSettings(steps=3)
    assert with_changes(HingeSettings, given, {}, "it") is given
    assert with_changes(HingeSettings, given, {"batch_size": 2}, "it") == HingeSettings(steps=3, batch_size=2)
    for settings, changes, message in (
        (given, {"batchsize": 2}, "it has no setting 'batchsize', did you mean 'batch_size'?"),
        (3, {}, "expected HingeSettings(...) or None"),
        (given, {"steps": 0}, "steps is 0"),
    ):
        with pytest.raises(InputError) as caught:
            with_changes(HingeSettings, settings, changes, "it")  # type: ignore[arg-type]
        assert message in str(caught.value)
    with pytest.raises(InputError, match=r"it was given no num_examples and no steps; expected num_examples=\.\.\."):
        with_changes(TrainSettings, None, {}, "it")


def test_batches_are_whole_chunks():
    for cls in (TrainSettings, JointSettings):
        assert hints_of(cls)["batch_size"].__metadata__[0].bounds() == {"ge": CHUNK, "multiple_of": CHUNK}


@pytest.mark.parametrize("cls", ALL)
def test_a_section_has_names_limits_and_meanings_of_its_settings(cls: type):
    section: Any = SECTIONS[cls]
    meanings = meanings_of(cls)
    for name, field in section.model_fields.items():
        if name in meanings and field.description is not None:
            assert field.description == meanings[name]
    assert {field.name for field in dataclasses.fields(cls)} >= {*section.model_fields} - {"kind"}
    made = section().settings(SingleIndex(4, 2)) if section is Training else section().settings()
    assert isinstance(made, cls)
    for name, value in made.asdict().items():
        if name in section.model_fields and name != "curriculum":
            assert section().model_dump(mode="json")[name] == value


@pytest.mark.parametrize(
    ("section", "change"),
    [
        (Training, {"batch_size": 12}),
        (Training, {"betas": [0.9, 1.0]}),
        (Training, {"average": 1.0}),
        (Training, {"optimiser": "sgd"}),
        (HingeTraining, {"until_loss": 0}),
        (TwoStage, {"degrees": [3]}),
        (TwoStage, {"degrees": []}),
        (TwoStage, {"stage2_examples": [0]}),
        (Joint, {"start_scale": 0.0}),
    ],
)
def test_a_section_refuses_what_its_settings_refuse(section: Any, change: dict[str, Any]):
    with pytest.raises(ValidationError):
        section.model_validate(change)
    with pytest.raises(InputError):
        section().settings(**change) if section is not Training else TrainSettings(num_examples=8, steps=8, **change)


def test_settings_as_an_object_and_as_keywords_train_the_same_model():
    curriculum = Curriculum(num_examples=Ramp(2, 6, 2, 5))
    settings = TrainSettings(num_examples=6, steps=24, batch_size=16, learning_rate=0.5, curriculum=curriculum)
    first, record = train(build(), distribution(), settings, stream=Stream(3), learning_rate=0.02)
    keywords = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    second, _ = train(build(), distribution(), stream=Stream(3), **(keywords | {"learning_rate": 0.02}))
    assert torch.equal(weights(first), weights(second))
    assert record.settings["learning_rate"] == 0.02
    assert record.settings["curriculum"] == {"num_examples": [2, 6, 2, 5]}
    assert record.final_loss == record.metrics[-1]["loss"]


def test_all_ways_to_train_take_settings_and_return_a_record():
    prompts, stream = SingleIndex(4, 2, "he1"), Stream(0)
    outliers = OutlierClassification(8, 2, 2, 1, outlier_fraction=0.3)
    two = TwoStageSettings(num_examples=8, stage1_tasks=8, stage2_tasks=8)
    at_once = JointSettings(num_examples=8, steps=2, batch_size=8)
    hinge = HingeSettings(steps=2, batch_size=8)
    deep = TrainSettings(num_examples=4, steps=2, batch_size=8)
    records = [
        two_stage(OneLayerMamba(4, 8), prompts, two, stream=stream)[1],
        joint(OneLayerMamba(4, 8), prompts, at_once, stream=stream)[1],
        hinge_sgd(GatedLinearAttention(8, stream=stream), outliers, hinge, stream=stream)[1],
        train(build(), distribution(), deep, stream=stream)[1],
    ]
    for record in records:
        assert record.seconds > 0
        assert np.isfinite(record.final_loss)
        assert record.settings["num_examples"] in (4, 8, 20)
