"""Algorithm 1 from end to end, and joint training: what they learn, that they repeat, what they refuse."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.links import make_link
from iclab.models import OneLayerMamba, block_degrees
from iclab.pretraining import NonFiniteLossError, gamma_gradient, joint, set_gamma, start_gamma, two_stage
from iclab.prompts import SingleIndex, Stream

TANH = SingleIndex(6, 1, make_link("tanh", standardise=True), 0.1)
BLIND = make_link("2*exp(-3/2)*sin(z)-sin(2*z)", standardise=True)  # degree-1 coefficient zero: ie 3, ge 1
SIZES: dict[str, Any] = {"num_examples": 64, "stage1_tasks": 400, "stage2_tasks": 400}


def squared_error(model: OneLayerMamba, distribution: SingleIndex, count: int, prompts: int = 256) -> float:
    test = distribution.sample(Stream(1).child("test"), prompts, count, 16)
    return float(((model.predict(test) - test.query_targets) ** 2).mean())


def pretrain(seed: int = 0, width: int = 128, **arguments):
    model = OneLayerMamba(6, width, rho=1.0, b=-9.0)
    return two_stage(model, TANH, stream=Stream(seed), **(SIZES | arguments))


def test_an_easy_link_is_learned():
    model, record = pretrain(stage1_tasks=2000)
    error = squared_error(model, TANH, 64)
    assert error < 0.45
    # The error on the Stage II tasks has the label noise 0.1^2 on top and is an estimate of the same number.
    assert record.train_error == pytest.approx(error + 0.01, abs=0.06)
    assert record.label_square == pytest.approx(1.01, abs=0.1)
    # Longer prompts than those of pretraining are read better.
    assert squared_error(model, TANH, 512) < error
    # The constant coordinate, whose gradient is large and says nothing of beta, is what holds it back.
    assert float(model.gamma.detach().abs()[0]) == 1
    only_linear, _ = pretrain(stage1_tasks=2000, degrees=(1,))
    assert squared_error(only_linear, TANH, 64) < 0.15


def test_pretraining_repeats_bit_for_bit_and_depends_on_its_seed():
    one, first = pretrain(seed=3)
    two, second = pretrain(seed=3)
    other, _ = pretrain(seed=4)
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name])
    assert first.train_error == second.train_error
    assert first.settings == second.settings
    assert not torch.equal(one.gamma, other.gamma)


def test_the_record_is_what_was_done():
    model, record = pretrain(stage2_examples=[32, 128])
    gradient = record.gradient.mean
    degree = block_degrees("hermite2", 6)
    assert record.gradient.num_tasks == 400
    assert record.gradient_norms == {k: pytest.approx(float(gradient[degree == k].norm())) for k in (0, 1, 2)}
    torch.testing.assert_close(model.gamma.detach().double(), -gradient / gradient.abs().max(), rtol=1e-6, atol=1e-7)
    assert torch.equal(model.a2.detach().double(), record.readout.weights.float().double())
    assert float(model.scale) == pytest.approx(record.head_scale)
    assert record.settings["stage2_examples"] == [32, 128]
    assert record.settings["lambda2"] == "hold-out"
    assert len(record.readout.holdout) > 5


def test_stage_one_starts_from_the_scale_asked_for():
    model = OneLayerMamba(6, 64, rho=1.0, b=-9.0)
    value = start_gamma(model, TANH, Stream(5), 64, 0.3)
    assert torch.equal(model.gamma.detach(), torch.full_like(model.gamma, value))
    assert bool((model.a2 == 1 / 64).all())
    p = TANH.sample(Stream(6), 2000, 64, 1)
    h = model.read(model.features(p), p.queries).detach().abs().flatten()
    kept = h[h <= h.quantile(0.95)]
    assert float(kept.square().mean().sqrt()) == pytest.approx(0.3, rel=0.2)
    gradient = gamma_gradient(model, TANH, Stream(5).child("stage1"), 400, 64)
    _, record = two_stage(OneLayerMamba(6, 64, rho=1.0, b=-9.0), TANH, stream=Stream(5), start_scale=0.3, **SIZES)
    assert torch.equal(record.gradient.mean, gradient.mean)
    assert record.gamma_start == value


def test_the_head_scale_is_the_quantile_of_the_state():
    model, _ = pretrain(head_quantile=0.9, stage2_tasks=2000)
    p = TANH.sample(Stream(7), 2000, 64, 4)
    m = model.read(model.features(p), p.queries).detach().abs()
    assert float((m <= model.scale).float().mean()) == pytest.approx(0.9, abs=0.02)


def test_a_given_penalty_uses_every_task():
    _, record = pretrain(lambda2=3.0)
    assert record.readout.penalty == 3.0
    assert record.readout.holdout == {}
    assert record.settings["lambda2"] == 3.0


@pytest.mark.parametrize("degrees", [(1,), (0, 2), (0, 1, 2)])
def test_only_the_degrees_asked_for_are_kept(degrees):
    model, _ = pretrain(degrees=degrees)
    degree = block_degrees("hermite2", 6)
    for k in (0, 1, 2):
        assert bool(model.gamma.detach()[degree == k].any()) == (k in degrees)
    assert float(model.gamma.detach().abs().max()) == pytest.approx(1)


def test_the_gate_learns_what_no_gate_sees():
    distribution = SingleIndex(16, 2, BLIND)
    errors = {}
    for gate in ("mamba", "linear"):
        model = OneLayerMamba(16, 512, gate=gate, rho=0.3, b=-15.0)
        two_stage(
            model,
            distribution,
            stream=Stream(0),
            num_examples=512,
            stage1_tasks=6000,
            stage2_tasks=4000,
            start_scale=0.1,
        )
        errors[gate] = squared_error(model, distribution, 512)
    assert errors["mamba"] < 0.75
    assert errors["linear"] > 0.9


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"stage1_tasks": 0}, "stage1_tasks"),
        ({"stage2_tasks": 0}, "stage2_tasks"),
        ({"num_examples": 0}, "num_examples"),
        ({"stage2_queries": 0}, "stage2_queries"),
        ({"start_scale": 0.0}, "start_scale"),
        ({"holdout_fraction": 1.0}, "holdout_fraction"),
        ({"head_quantile": 0.0}, "head_quantile"),
        ({"stage2_examples": []}, "stage2_examples is "),
        ({"stage2_examples": [8, 0]}, "stage2_examples"),
        ({"stage2_examples": 2.5}, "stage2_examples"),
        ({"degrees": ()}, "degrees"),
        ({"degrees": (3,)}, "degrees"),
        ({"lambda2": -1.0}, "lambda2"),
        ({"stage2_tasks": 1}, "hold-out"),
    ],
)
def test_wrong_sizes_are_refused(arguments, word):
    with pytest.raises(InputError, match=word):
        pretrain(**({"stage1_tasks": 8, "stage2_tasks": 8, "num_examples": 8} | arguments))


def test_a_gradient_without_size_is_refused():
    model = OneLayerMamba(6, 8)
    for value in (0.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="gradient has largest entry"):
            set_gamma(model, torch.full((28,), value))
    with pytest.raises(InputError, match="gradient has largest entry"):
        set_gamma(model, torch.eye(28)[1], degrees=(2,))


def test_numpy_lengths_are_lengths():
    _, record = pretrain(stage2_examples=np.array([16, 32]))
    assert record.settings["stage2_examples"] == [16, 32]
    _, record = pretrain(stage2_examples=np.int64(16))
    assert record.settings["stage2_examples"] == [16]


JOINT: dict[str, Any] = {"num_examples": 32, "steps": 150, "batch_size": 32}


def train(seed: int = 0, **arguments):
    model = OneLayerMamba(6, 64, rho=1.0, b=-9.0)
    return joint(model, TANH, stream=Stream(seed), **(JOINT | arguments))


def test_joint_training_learns():
    model, record = train(learning_rate=0.01)
    assert len(record.losses) * record.record_every == 150
    assert record.losses[0] > 0.7
    assert np.mean(record.losses[-10:]) < 0.5 * record.losses[0]
    # What was trained is what predicts: biases included.
    assert squared_error(model, TANH, 32) == pytest.approx(np.mean(record.losses[-10:]) - 0.01, abs=0.1)


def test_joint_training_repeats_bit_for_bit():
    one, first = train(seed=2, steps=20)
    two, second = train(seed=2, steps=20)
    assert first.losses == second.losses
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name])
    assert dataclasses.asdict(first)["settings"]["steps"] == 20


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"steps": 0}, "steps"),
        ({"batch_size": 12}, "multiple of 8"),
        ({"batch_size": 0}, "batch_size"),
        ({"num_examples": 0}, "num_examples"),
        ({"num_queries": 0}, "num_queries"),
        ({"learning_rate": -0.1}, "learning_rate"),
        ({"start_scale": float("nan")}, "start_scale"),
    ],
)
def test_joint_training_refuses_wrong_sizes(arguments, word):
    with pytest.raises(InputError, match=word):
        train(**arguments)


def test_joint_training_that_diverges_stops_with_its_step():
    with pytest.raises(NonFiniteLossError) as caught:
        train(learning_rate=1e30, steps=5)
    assert 1 < caught.value.step <= 5
    assert caught.value.learning_rate > 1e28
    assert caught.value.checkpoint is None


def test_the_head_is_redrawn_between_the_stages():
    """Step 2 of Algorithm 1: Stage II reads out a head that Stage I has not seen."""
    model, _ = pretrain(seed=11)
    heads = {}
    for role in ("head0", "head"):
        other = OneLayerMamba(6, 128)
        other.draw_head(Stream(11).child(role))
        heads[role] = other
    assert torch.equal(model.v, heads["head"].v)
    assert torch.equal(model.a1, heads["head"].a1)
    assert not torch.equal(model.v, heads["head0"].v)
    assert not bool((model.a1 == heads["head0"].a1).any())


def test_joint_training_stores_the_biases_it_fitted():
    rate = 3e-3
    model = OneLayerMamba(6, 64, rho=1.0, b=-9.0)
    joint(model, TANH, stream=Stream(4), num_examples=32, steps=1, learning_rate=rate)
    drawn = OneLayerMamba(6, 64)
    drawn.draw_head(Stream(4).child("head"))
    moved = (model.a1 - drawn.a1).abs()
    # The first step of Adam has the size of the learning rate wherever there is a gradient.
    assert float(moved.max()) == pytest.approx(rate, rel=1e-3)
    assert bool((moved > 0.9 * rate).float().mean() > 0.3)
    assert torch.equal(model.v, drawn.v)


def test_the_loss_of_joint_training_is_that_of_the_stored_model():
    """Trained and stored weights agree: a last step of size zero leaves the loss of the model as it is."""
    model = OneLayerMamba(6, 64, rho=1.0, b=-9.0)
    _, record = joint(model, TANH, stream=Stream(4), num_examples=64, steps=200, learning_rate=2e-2)
    test = TANH.sample(Stream(8).child("test"), 1024, 64, 8)
    error = float(((model.predict(test) - test.query_labels) ** 2).mean())
    assert error == pytest.approx(float(np.mean(record.losses[-5:])), rel=0.15)
