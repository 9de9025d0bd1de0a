"""Stacks of attention on tokens against a definition that steps through layers, tokens and pairs of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.models import AttentionStack, GatedLinearAttention, SoftmaxAttention, load_model, save_model
from iclab.pretraining import NonFiniteLossError, hinge_sgd
from iclab.prompts import OutlierClassification, Prompts, Stream

STREAM = Stream(32).child("attention stack")
MIXERS = ("gated", "linear", "softmax")
D = 3


def make(mixer: str, depth: int = 3) -> AttentionStack:
    """A model with random weights."""
    model = AttentionStack(D, mixer, depth, dtype=torch.float64)
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.normal_(generator=STREAM.child(mixer).at(number)).mul_(0.5)
    return model


def layers(model: AttentionStack) -> list[Any]:
    """Its layers, whose parts torch types as any module."""
    return list(model.layers)


def draw(batch: int, count: int, queries: int = 2) -> Prompts:
    generator = STREAM.child("prompts").at(count)
    inputs = torch.randn(batch, count + queries, D, generator=generator, dtype=torch.float64)
    signs = 2.0 * torch.randint(2, (batch, count + queries), generator=generator).double() - 1
    labels = torch.cat([signs[:, :count], torch.full((batch, queries), float("nan"), dtype=torch.float64)], 1)
    return Prompts(inputs, labels, count)


def output_by_definition(model: AttentionStack, x: np.ndarray, y: np.ndarray, query: np.ndarray) -> float:
    """One prompt and one query: the query is the last token, and each token reads those before it."""
    tokens = [np.append(row, label) for row, label in zip(x, y, strict=True)] + [np.append(query, 0.0)]
    for layer in model.layers:
        weights = {name: p.detach().numpy() for name, p in layer.named_parameters()}
        key, ask = weights["mixer.W_B"], weights["mixer.W_C"]
        after = []
        for t, token in enumerate(tokens):
            scores = [float((key @ tokens[i]) @ (ask @ token)) for i in range(t)]
            if model.mixer == "softmax":
                scores = [np.exp(s) / sum(np.exp(r) for r in scores) for s in scores]
            if model.mixer == "gated":
                opened = [1 / (1 + np.exp(-float(weights["mixer.w"] @ p))) for p in tokens[: t + 1]]
                scores = [s * opened[i] * np.prod([1 - o for o in opened[i + 1 :]]) for i, s in enumerate(scores)]
            read = sum((s * tokens[i] for i, s in enumerate(scores)), np.zeros(D + 1))
            after.append(token + weights["W_V"] @ read)
        tokens = after
    return float(tokens[-1][-1])


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_outputs_are_those_of_the_definition(mixer, depth):
    model = make(mixer, depth)
    for count in (0, 1, 2, 9):
        p = draw(2, count)
        expected = [
            [output_by_definition(model, x, y, query) for query in queries]
            for x, y, queries in zip(p.examples.numpy(), p.example_labels.numpy(), p.queries.numpy(), strict=True)
        ]
        np.testing.assert_allclose(model(p).detach().numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mixer", MIXERS)
def test_one_layer_is_the_one_layer_model(mixer):
    one = SoftmaxAttention(D) if mixer == "softmax" else GatedLinearAttention(D, gated=mixer == "gated")
    stack, p = AttentionStack(D, mixer, 1, start=one.start), draw(4, 9)
    layers(stack)[0].mixer.load_state_dict(one.mixer.state_dict())
    (outputs, attention), (expected, of_one) = (model(p, return_attention=True) for model in (stack, one))
    torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-7)
    assert torch.equal(attention.scores, of_one.scores)
    assert torch.equal(attention.log_gates, of_one.log_gates)


@pytest.mark.parametrize("mixer", MIXERS)
def test_predictions_along_the_prompt_are_predictions_from_each_prefix(mixer):
    model, p = make(mixer), draw(2, 9, 1)
    along = model.predict_prefixes(p)
    for k in range(9):
        shorter = Prompts(p.inputs[:, : k + 1], p.labels[:, : k + 1], k)
        torch.testing.assert_close(along[:, k], model.predict(shorter)[:, 0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mixer", MIXERS)
def test_attention_has_a_row_for_each_layer_and_rests_on_the_context_alone(mixer):
    model, p = make(mixer), draw(2, 9, 3)
    _, attention = model(p, return_attention=True)
    assert attention.scores.shape == attention.gates.shape == (3, 2, 3, 9)
    if mixer == "softmax":
        torch.testing.assert_close(attention.scores.sum(-1), torch.ones(3, 2, 3, dtype=torch.float64))
    if mixer == "gated":
        assert bool((attention.gates < 1).all())
    else:
        assert bool((attention.gates == 1).all())
    alone = Prompts(p.inputs[:, [*range(9), 10]], p.labels[:, [*range(9), 10]], 9)
    _, single = model(alone, return_attention=True)
    torch.testing.assert_close(attention.scores[:, :, 1:2], single.scores, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(attention.log_gates[:, :, 1:2], single.log_gates, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_saved_stack_comes_back(mixer, tmp_path: Path):
    model, p = make(mixer, 2), draw(2, 9)
    loaded = load_model(save_model(model, tmp_path))
    assert isinstance(loaded, AttentionStack)
    assert (loaded.settings(), loaded.name) == (model.settings(), model.name)
    assert torch.equal(loaded.predict(p), model.predict(p))


def test_starting_values():
    model = AttentionStack(5, "gated", 2, stream=STREAM)
    gates = [layer.mixer.w for layer in layers(model)]
    assert not torch.equal(*gates)
    assert len(model.gate_parameters()) == 2
    assert all(found is expected for found, expected in zip(model.gate_parameters(), gates, strict=True))
    copied = torch.zeros(6, 6)
    copied[5, 5] = 1
    assert all(torch.equal(layer.W_V, copied) for layer in layers(model))
    assert [AttentionStack(5, mixer).start for mixer in MIXERS] == [0.2, 0.05, 0.2]


@pytest.mark.parametrize("mixer", MIXERS)
def test_all_mixers_learn(mixer):
    distribution = OutlierClassification(8, 2, 2, 1, outlier_fraction=0.3)
    model = AttentionStack(8, mixer, 3, stream=STREAM)
    _, record = hinge_sgd(model, distribution, stream=STREAM, num_examples=8, steps=100, batch_size=16, log_every=5)
    assert record.gradients == "autograd"
    assert record.final_loss < 0.3 * record.windows[0].loss


def test_the_start_of_linear_attention_is_small_because_plain_sgd_diverges_from_the_papers():
    """At the paper's sizes, with three layers."""
    distribution = OutlierClassification(outlier_fraction=0.4)
    arguments: dict[str, Any] = {"stream": STREAM, "steps": 40, "log_every": 10}
    with pytest.raises(NonFiniteLossError) as error:
        hinge_sgd(AttentionStack(30, "linear", 3, start=0.2), distribution, **arguments)
    assert error.value.step < 10
    _, record = hinge_sgd(AttentionStack(30, "linear", 3), distribution, **arguments)
    assert record.final_loss < 0.1


def test_wrong_arguments_are_refused():
    wrong: list[dict[str, Any]] = [{"mixer": "mamba"}, {"depth": 0}, {"start": -1.0}, {"state_size": 2.5}]
    for arguments in wrong:
        with pytest.raises(InputError):
            AttentionStack(4, **arguments)
