"""Finite prompts whose numbers leave floating point inside the one-layer model: named, never a silent NaN."""

import dataclasses

import pytest
import torch

from iclab.errors import InputError
from iclab.models import OneLayerMamba
from iclab.prompts import InputDistribution, Prompts, SingleIndex, Stream

GATES = pytest.mark.parametrize("gate", ["mamba", "no_decay", "linear"])


def draw(dtype: torch.dtype = torch.float64) -> Prompts:
    return SingleIndex(3, 2, "tanh").sample(Stream(0).child("range"), 4, 12, 2, dtype=dtype)


def model(gate: str = "mamba", dtype: torch.dtype = torch.float32, **settings) -> OneLayerMamba:
    made = OneLayerMamba(3, 8, gate=gate, rho=0.5, b=-4.0, dtype=dtype, **settings)
    made.draw_head(Stream(1))
    made.a2.data.fill_(0.1)
    return made


def with_label(value: float) -> Prompts:
    p = draw()
    labels = p.labels.clone()
    labels[2, 7] = value
    return dataclasses.replace(p, labels=labels)


@GATES
@pytest.mark.parametrize("value", [1e39, -1e300])
def test_a_label_that_the_model_cannot_hold_is_named(gate: str, value: float) -> None:
    made, p = model(gate), with_label(value)
    for call in (made.predict, made.predict_prefixes, made.features, made.gates):
        with pytest.raises(
            InputError, match=r"a context label is -?1e\+\d+ at \(2, 7\), which torch.float32 cannot"
        ) as e:
            call(p)
        assert "dtype=torch.float64" in str(e.value)
        assert "\n" not in str(e.value)
    # What the message advises helps.
    assert bool(torch.isfinite(model(gate, clip=5.0).predict(p)).all())
    if abs(value) < 1e100:
        assert bool(torch.isfinite(model(gate, torch.float64).predict(p)).all())


@GATES
def test_an_input_that_the_model_cannot_hold_is_named(gate: str) -> None:
    p = draw()
    inputs = p.inputs.clone()
    inputs[1, 3, 2] = 1e200
    for call in (model(gate).predict, model(gate).predict_prefixes):
        with pytest.raises(InputError, match=r"an input is 1e\+200 at \(1, 3, 2\), which torch.float32 cannot hold"):
            call(dataclasses.replace(p, inputs=inputs))


@GATES
@pytest.mark.parametrize("place", [(1, 3, 2), (1, 13, 2)])
def test_products_that_leave_float64_are_named(gate: str, place: tuple[int, int, int]) -> None:
    p = draw()
    inputs = p.inputs.clone()
    inputs[place] = 1e200
    bad = dataclasses.replace(p, inputs=inputs)
    made = model(gate, torch.float64)
    with pytest.raises(InputError, match=r"leaves the range of torch.float64: inputs reach 1e\+200"):
        made.predict(bad)
    if place[1] < 12:
        with pytest.raises(InputError, match=r"leaves the range of torch.float64: inputs reach 1e\+200"):
            made.predict_prefixes(bad)


def test_an_infinite_state_does_not_hide_behind_a_relu() -> None:
    made = model("linear", torch.float64)
    made.v.fill_(-1.0)  # relu(-inf) = 0 would be a finite prediction
    inputs = draw().inputs.clone()
    inputs[1, 3] = inputs[1, 12] = torch.tensor([0.0, 1e160, 0.0], dtype=torch.float64)
    p = dataclasses.replace(draw(), inputs=inputs, labels=draw().labels.abs(), targets=None)
    with pytest.raises(InputError, match="leaves the range"):
        made.predict(p)


def test_a_prediction_that_the_prompts_cannot_hold_is_named() -> None:
    made = model(dtype=torch.float64)
    made.a2.data.fill_(1e300)
    assert bool(torch.isfinite(made.predict(draw())).all())
    for call in (made.predict, made.predict_prefixes):
        with pytest.raises(InputError, match=r"leaves the range of torch.float32"):
            call(draw(torch.float32))


@pytest.mark.parametrize("name", ["a2", "gamma"])
def test_weights_that_are_not_finite_are_what_is_blamed(name: str) -> None:
    made = model()
    getattr(made, name).data[0] = float("nan")
    with pytest.raises(InputError, match="the model has weights that are not finite"):
        made.predict(draw())


def test_parameters_beyond_memory_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iclab.memory.total_memory", lambda: 100_000)
    assert OneLayerMamba(3, 1000).width == 1000
    with pytest.raises(InputError, match="width 1000000 would take"):
        OneLayerMamba(3, 1_000_000)


@pytest.mark.parametrize("df", [float("inf"), float("nan"), 2.0, "5", None, True])
def test_degrees_of_freedom_are_finite_and_above_two(df) -> None:
    with pytest.raises(InputError, match="df is"):
        InputDistribution("student_t", df=df)


def test_student_inputs_with_many_degrees_of_freedom_are_nearly_gaussian() -> None:
    distribution = SingleIndex(4, 2, "tanh", inputs=InputDistribution("student_t", df=1e300))
    x = distribution.sample(Stream(0), 64, 100, 1, dtype=torch.float64).inputs
    assert float((x**4).mean()) == pytest.approx(3.0, abs=0.2)
