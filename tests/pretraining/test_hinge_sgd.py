"""Plain SGD on the hinge loss: gradients against autograd, steps against a loop, the record against its prompts."""

import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from torch import Tensor

from iclab.errors import InputError
from iclab.models import GatedLinearAttention, SoftmaxAttention
from iclab.pretraining import HingeWindow, NonFiniteLossError, TrainProgress, hinge_gradient, hinge_sgd
from iclab.prompts import OutlierClassification, Prompts, SingleIndex, Stream

STREAM = Stream(33).child("hinge")
KINDS = ("gated", "linear", "softmax")
LAW = OutlierClassification(8, 2, 2, 1, outlier_fraction=0.3)


def make(kind: str, d: int = 8, dtype: torch.dtype = torch.float64, random: bool = False):
    model = (
        SoftmaxAttention(d, dtype=dtype)
        if kind == "softmax"
        else GatedLinearAttention(d, gated=kind == "gated", stream=STREAM, dtype=dtype)
    )
    if random:
        with torch.no_grad():
            for number, parameter in enumerate(model.parameters()):
                parameter.normal_(generator=STREAM.child(kind).at(number)).mul_(0.4)
    return model


def loss_by_definition(model, p: Prompts) -> tuple[Tensor, Tensor]:
    """Mean hinge loss and outputs, every product of the gates formed term by term and differentiable."""
    context = torch.cat([p.examples, p.example_labels[..., None]], -1)
    queries = torch.cat([p.queries, torch.zeros_like(p.queries[..., :1])], -1)
    keys, asked = context @ model.W_B.T, queries @ model.W_C.T
    outputs = []
    for q in range(queries.shape[1]):
        scores = (keys * asked[:, q, None]).sum(-1)
        if isinstance(model, SoftmaxAttention):
            weights = torch.exp(scores) / torch.exp(scores).sum(-1, keepdim=True)
        elif model.w is None:
            weights = scores
        else:
            opened = torch.sigmoid(context @ model.w)
            gates = []
            for i in range(context.shape[1]):
                gate = opened[:, i] * (1 - torch.sigmoid(queries[:, q] @ model.w))
                for j in range(i + 1, context.shape[1]):
                    gate = gate * (1 - opened[:, j])
                gates.append(gate)
            weights = torch.stack(gates, 1) * scores
        outputs.append((weights * p.example_labels).sum(-1))
    result = torch.stack(outputs, 1)
    return torch.relu(1 - p.query_labels * result).mean(), result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "queries"), [(1, 1), (2, 3), (7, 1), (20, 2)])
def test_the_gradient_is_that_of_autograd(kind, count, queries):
    model = make(kind, random=True)
    p = LAW.sample(STREAM.child("gradient"), 24, count, queries, dtype=torch.float64)
    loss, outputs = loss_by_definition(model, p)
    loss.backward()
    short = float((1 - p.query_labels * outputs > 0).double().mean())
    assert short > 0.1
    assert short < 1 or kind == "softmax"  # a mean of labels never gets beyond the hinge
    found, slopes = hinge_gradient(model, p)
    torch.testing.assert_close(found, outputs.detach(), rtol=1e-10, atol=1e-12)
    assert set(slopes) == set(model.parameters())
    for parameter, slope in slopes.items():
        assert parameter.grad is not None
        assert float(parameter.grad.abs().max()) > 1e-6 or (kind == "softmax" and count == 1)
        torch.testing.assert_close(slope, parameter.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_that_of_a_plain_loop(kind):
    """The prompts of the stream in order, autograd on the definition, one step size for weights and one for gates."""
    model, reference = make(kind), make(kind)
    _, record = hinge_sgd(
        model, LAW, stream=STREAM, num_examples=6, steps=7, batch_size=12, learning_rate=0.3, gate_learning_rate=0.7,
        num_queries=2, log_every=3,
    )  # fmt: skip
    p = LAW.sample(STREAM.child("train"), 7 * 12, 6, 2, dtype=torch.float64)
    losses, errors = [], []
    for step in range(7):
        batch = p[12 * step : 12 * (step + 1)]
        loss, outputs = loss_by_definition(reference, batch)
        slopes = torch.autograd.grad(loss, list(reference.parameters()))
        losses.append(float(loss.detach()))
        errors.append(float((outputs * batch.query_labels <= 0).double().mean()))
        with torch.no_grad():
            for parameter, slope in zip(reference.parameters(), slopes, strict=True):
                parameter.sub_((0.7 if parameter.ndim == 1 else 0.3) * slope)
    for found, expected in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert [window.step for window in record.windows] == [3, 6, 7]
    assert [window.num_prompts for window in record.windows] == [36, 36, 12]
    np.testing.assert_allclose([w.loss for w in record.windows], [np.mean(losses[:3]), np.mean(losses[3:6]), losses[6]])
    np.testing.assert_allclose(
        [w.error for w in record.windows], [np.mean(errors[:3]), np.mean(errors[3:6]), errors[6]], atol=1e-12
    )
    assert record.gradients == "analytic"
    assert (record.steps, record.final_loss) == (7, record.windows[-1].loss)
    assert record.settings["gate_learning_rate"] == (0.7 if kind == "gated" else None)
    assert record.settings["model_settings"] == model.settings()


@pytest.mark.parametrize("kind", KINDS)
def test_written_out_gradients_and_autograd_train_the_same_model(kind):
    models = [make(kind), make(kind)]
    records = [
        hinge_sgd(model, LAW, stream=STREAM, num_examples=6, steps=20, batch_size=8, gradients=gradients)[1]
        for model, gradients in zip(models, ("auto", "autograd"), strict=True)
    ]
    assert [record.gradients for record in records] == ["analytic", "autograd"]
    for first, second in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-10, atol=1e-12)


def test_how_many_prompts_are_drawn_at_once_changes_no_bit(monkeypatch: pytest.MonkeyPatch):
    models = [make("gated"), make("gated")]
    hinge_sgd(models[0], LAW, stream=STREAM, num_examples=6, steps=9, batch_size=12)
    monkeypatch.setattr(sys.modules["iclab.pretraining.hinge.sgd"], "_AT_ONCE", 2 * 12 * 7 * 8)
    hinge_sgd(models[1], LAW, stream=STREAM, num_examples=6, steps=9, batch_size=12)
    assert all(torch.equal(a, b) for a, b in zip(*(model.parameters() for model in models), strict=True))


def test_a_window_is_measured_as_statistics_say():
    margins = torch.tensor([[2.0, -1.0], [0.0, 0.5], [1.0, 3.0], [0.5, 0.5]], dtype=torch.float64)
    window = HingeWindow.measure(5, margins)
    losses = [1.0, 0.75, 0.0, 0.5]  # of each prompt, over its queries
    assert (window.step, window.num_prompts) == (5, 4)
    assert window.loss == pytest.approx(np.mean(losses))
    assert window.loss_error == pytest.approx(np.std(losses, ddof=1) / 2)
    assert window.error == 0.25  # a margin of -1 and one of 0
    exact = binomtest(1, 4).proportion_ci(method="wilson")
    assert (window.error_low, window.error_high) == (pytest.approx(exact.low), pytest.approx(exact.high))
    for wrong in (0, 3, 4):
        exact = binomtest(wrong, 4).proportion_ci(method="wilson")
        window = HingeWindow.measure(1, torch.tensor([[-1.0]] * wrong + [[1.0]] * (4 - wrong)))
        assert window.error_low == pytest.approx(exact.low, abs=1e-15)
        assert window.error_high == pytest.approx(exact.high, abs=1e-15)
    single = HingeWindow.measure(1, torch.tensor([[0.25]]))
    assert single.loss == 0.75
    assert math.isnan(single.loss_error)


def test_training_learns_stops_at_a_loss_and_tells_when():
    model = make("gated", dtype=torch.float32)
    seen: list[TrainProgress] = []
    _, record = hinge_sgd(
        model, LAW, stream=STREAM, num_examples=10, steps=2000, batch_size=16, log_every=20, learning_rate=0.02,
        until_loss=0.05, progress=seen.append,
    )  # fmt: skip
    assert record.windows[0].loss > 0.3
    assert record.final_loss <= 0.05
    assert record.steps < 2000
    assert record.steps == record.windows[-1].step == record.steps_to(0.05)
    assert record.steps_to(0.0) is None
    assert record.prompts_to(0.0) is None
    middle = record.steps_to(0.3)
    assert middle is not None
    assert middle < record.steps
    assert record.prompts_to(0.3) == 16 * middle
    assert all(window.loss > 0.3 for window in record.windows if window.step < middle)
    assert [report.step for report in seen] == [window.step for window in record.windows]
    assert seen[-1].loss == record.final_loss
    fresh = LAW.sample(STREAM.child("test"), 2000, 10)
    margins = model.predict(fresh) * fresh.query_targets
    assert float((margins <= 0).float().mean()) < 0.05


@pytest.mark.parametrize("gradients", ["auto", "autograd"])
def test_a_loss_that_is_not_finite_stops_at_its_step(gradients):
    model = make("linear", dtype=torch.float32)
    with pytest.raises(NonFiniteLossError, match="learning rate 1e") as error:
        hinge_sgd(model, LAW, stream=STREAM, steps=50, batch_size=8, learning_rate=1e18, gradients=gradients)
    assert 1 < error.value.step < 50
    assert error.value.checkpoint is None
    assert not math.isfinite(error.value.loss) or not math.isfinite(error.value.grad_norm)


def test_frozen_weights_stay():
    model = make("gated")
    model.W_B.requires_grad_(False)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    hinge_sgd(model, LAW, stream=STREAM, steps=2, batch_size=8, gate_learning_rate=0.0)
    same = [torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    names = [name for name, _ in model.named_parameters()]
    assert dict(zip(names, same, strict=True)) == {"mixer.W_B": True, "mixer.W_C": False, "mixer.w": True}


class Constant(torch.nn.Module):
    """A model of one's own: it needs no more than this."""

    input_dim = 8

    def __init__(self, queries: int = 1) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(queries))

    def forward(self, prompts: Prompts) -> Tensor:
        return self.bias.expand(prompts.batch_size, -1)


def test_any_module_can_be_trained():
    _, record = hinge_sgd(Constant(), LAW, stream=STREAM, steps=3, batch_size=8, learning_rate=0.5)
    assert record.windows[0].loss == pytest.approx(1, abs=0.5)
    p = LAW.sample(STREAM.child("train"), 8, 20)
    first = Constant()
    hinge_sgd(first, LAW, stream=STREAM, steps=1, batch_size=8, learning_rate=0.5)
    assert float(first.bias.detach()[0]) == pytest.approx(0.5 * float(p.query_labels.mean()))
    with pytest.raises(InputError, match=r"returned shape \(8, 3\); expected \(8, 1\)"):
        hinge_sgd(Constant(3), LAW, stream=STREAM, steps=3, batch_size=8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stream": 3}, "expected a Stream"),
        ({"num_examples": 0}, "num_examples is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"batch_size": 2.5}, "batch_size is 2.5"),
        ({"num_queries": 0}, "num_queries is 0"),
        ({"log_every": 0}, "log_every is 0"),
        ({"learning_rate": 0}, "learning_rate is 0"),
        ({"gate_learning_rate": -1.0}, "gate_learning_rate is -1.0"),
        ({"gate_learning_rate": float("inf")}, "gate_learning_rate is inf"),
        ({"until_loss": 0.0}, "until_loss is 0"),
        ({"gradients": "finite"}, "gradients is 'finite'"),
    ],
)
def test_wrong_arguments_are_refused_before_any_step(arguments, message):
    model = make("gated")
    before = model.W_B.detach().clone()
    chosen: dict[str, Any] = {"stream": STREAM, "steps": 2, **arguments}
    with pytest.raises(InputError, match=message) as error:
        hinge_sgd(model, LAW, **chosen)
    assert "\n" not in str(error.value)
    assert torch.equal(model.W_B, before)


def test_wrong_prompts_and_models_are_refused():
    with pytest.raises(InputError, match="dimension 8 and the model takes 5"):
        hinge_sgd(make("gated", d=5), LAW, stream=STREAM)
    with pytest.raises(InputError, match=r"a query has the label .* expected \+1 or -1"):
        hinge_sgd(make("gated"), SingleIndex(8, 2, "he3"), stream=STREAM)
