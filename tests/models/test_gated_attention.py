"""One-layer attention on tokens against its definition, written out here example by example in NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.models import (
    GatedLinearAttention,
    LabelGate,
    SoftmaxAttention,
    load_model,
    recurrent_outputs,
    save_model,
)
from iclab.models.gate_weights import log_weights, log_weights_behind
from iclab.prompts import Prompts, Stream

STREAM = Stream(31).child("gated attention")
KINDS = ("gated", "linear", "softmax")
LENGTHS = (0, 1, 2, 3, 7, 20)
D = 4


def make(kind: str, d: int = D, state_size: int | None = None, dtype: torch.dtype = torch.float64):
    """A model with random weights, so that no coordinate can be mistaken for another."""
    model = (
        SoftmaxAttention(d, state_size=state_size, dtype=dtype)
        if kind == "softmax"
        else GatedLinearAttention(d, gated=kind == "gated", state_size=state_size, dtype=dtype)
    )
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.normal_(generator=STREAM.child(kind).at(number)).mul_(0.7)
    return model


def gated_model(gated: bool = True) -> GatedLinearAttention:
    model = make("gated" if gated else "linear")
    assert isinstance(model, GatedLinearAttention)
    return model


def gate_of(model: GatedLinearAttention) -> torch.nn.Parameter:
    assert model.w is not None
    return model.w


def has_finite_gradients(model: torch.nn.Module) -> bool:
    slopes = [parameter.grad for parameter in model.parameters()]
    return all(slope is not None and bool(torch.isfinite(slope).all()) for slope in slopes)


def draw(batch: int, count: int, queries: int = 2, d: int = D) -> Prompts:
    generator = STREAM.child("prompts").at(count)
    inputs = torch.randn(batch, count + queries, d, generator=generator, dtype=torch.float64)
    signs = 2.0 * torch.randint(2, (batch, count + queries), generator=generator).double() - 1
    labels = torch.cat([signs[:, :count], torch.full((batch, queries), float("nan"), dtype=torch.float64)], 1)
    return Prompts(inputs, labels, count)


def parts_by_definition(model, x: np.ndarray, y: np.ndarray, query: np.ndarray) -> tuple[float, list, list]:
    """``F``, scores and gates of one prompt and one query."""
    key, ask = (p.detach().numpy() for p in (model.W_B, model.W_C))
    tokens = [np.append(row, label) for row, label in zip(x, y, strict=True)]
    last = np.append(query, 0.0)
    scores = [float(np.dot(key @ p, ask @ last)) for p in tokens]
    gates = [1.0] * len(tokens)
    if isinstance(model, SoftmaxAttention):
        sizes = np.exp(scores)
        scores = list(sizes / sizes.sum()) if tokens else []
    elif model.w is not None:
        opened = [1 / (1 + np.exp(-float(model.w.detach().numpy() @ p))) for p in (*tokens, last)]
        gates = [opened[i] * float(np.prod([1 - s for s in opened[i + 1 :]])) for i in range(len(tokens))]
    return float(sum(g * a * label for g, a, label in zip(gates, scores, y, strict=True))), scores, gates


def by_definition(model, p: Prompts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs ``(B, Q)``, scores and gates ``(B, Q, N)``."""
    rows = [
        [parts_by_definition(model, x, y, q) for q in queries]
        for x, y, queries in zip(p.examples.numpy(), p.example_labels.numpy(), p.queries.numpy(), strict=True)
    ]
    return tuple(np.array([[parts[i] for parts in row] for row in rows]) for i in range(3))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state_size", [None, 2, 9])
def test_outputs_scores_and_gates_are_those_of_the_definition(kind, state_size):
    model = make(kind, state_size=state_size)
    for count in LENGTHS:
        p = draw(3, count)
        outputs, attention = model(p, return_attention=True)
        expected = by_definition(model, p)
        for found, values in zip((outputs, attention.scores[0], attention.gates[0]), expected, strict=True):
            assert tuple(found.shape) == values.shape
            np.testing.assert_allclose(found.detach().numpy(), values, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("gated", [True, False])
def test_the_recurrence_and_the_closed_form_agree(gated):
    model = gated_model(gated)
    for count in (*LENGTHS, 301):
        p = draw(3, count)
        torch.testing.assert_close(model(p).detach(), recurrent_outputs(model, p), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_along_the_prompt_are_predictions_from_each_prefix(kind):
    model, p = make(kind), draw(2, 20, 1)
    along = model.predict_prefixes(p)
    assert along.shape == (2, 20)
    assert torch.equal(along[:, 0], torch.zeros(2, dtype=torch.float64))
    for k in range(20):
        shorter = Prompts(p.inputs[:, : k + 1], p.labels[:, : k + 1], k)
        torch.testing.assert_close(along[:, k], model.predict(shorter)[:, 0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_queries_do_not_see_one_another(kind):
    model, p = make(kind), draw(2, 7, 3)
    alone = [Prompts(p.inputs[:, [*range(7), 7 + q]], p.labels[:, [*range(7), 7 + q]], 7) for q in range(3)]
    together = model.predict(p)
    for q, single in enumerate(alone):
        torch.testing.assert_close(together[:, q], model.predict(single)[:, 0], rtol=1e-12, atol=1e-12)


def test_a_gate_of_labels_alone_is_that_of_the_single_index_model():
    """With ``w = (0, ..., 0, 1/rho)`` both models have one gate: ``LabelGate`` at ``b = 0``, up to ``s(0) = 1/2``."""
    model, p = gated_model(), draw(3, 20, 1)
    rho = 0.6
    with torch.no_grad():
        gate_of(model).zero_()
        gate_of(model)[-1] = 1 / rho
    log_gates = model(p, return_attention=True)[1].log_gates[0, :, 0]
    expected = LabelGate("mamba", rho, 0.0).log_weights(p.example_labels) + np.log(0.5)
    torch.testing.assert_close(log_gates.detach(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gates_of_long_prompts_stay_exact_in_logs(dtype):
    """Equal tokens have a gate known in closed form; at N = 4000 it is far below the smallest number of the dtype."""
    count, model = 4000, GatedLinearAttention(2, gate_start=[0.5, 0.0, 0.25], dtype=dtype)
    p = Prompts(torch.ones(1, count + 1, 2, dtype=dtype), torch.ones(1, count + 1, dtype=dtype), count)
    outputs, attention = model(p, return_attention=True)
    left = torch.arange(count - 1, -1, -1, dtype=torch.float64)
    keep, own = (float(torch.nn.functional.logsigmoid(torch.tensor(-u, dtype=torch.float64))) for u in (0.75, 0.5))
    expected = (keep + 0.75) + left * keep + own
    assert float(expected[0]) < -4000
    found = attention.log_gates[0, 0, 0].detach().double()
    torch.testing.assert_close(found, expected, rtol=2e-5 if dtype == torch.float32 else 1e-12, atol=0)
    outputs.sum().backward()
    assert has_finite_gradients(model)
    torch.testing.assert_close(outputs.detach(), recurrent_outputs(model, p), rtol=1e-5, atol=0)


@pytest.mark.parametrize("size", [1e4, 1e30])
def test_gates_that_are_shut_or_open_wide_give_no_nan(size):
    model, p = gated_model(), draw(2, 7)
    with torch.no_grad():
        gate_of(model).mul_(size)
    model(p).sum().backward()
    assert bool(torch.isfinite(model.predict(p)).all())
    assert has_finite_gradients(model)


def test_weights_behind_each_place_are_those_of_the_shortened_sequence():
    generator = STREAM.child("weights").at(0)
    gain, keep = torch.randn(2, 3, 9, generator=generator, dtype=torch.float64)
    keep[0, 4] = -1e9  # drowns nothing but what lies before it
    found = log_weights_behind(gain, keep, torch.tensor([0, 9, 4, 4]))
    for column, place in enumerate((0, 9, 4, 4)):
        expected = log_weights(gain[:, :place].clone(), keep[:, :place])
        assert torch.equal(found[:, column, :place], expected)
        assert bool((found[:, column, place:] == -torch.inf).all())


def test_starting_values_are_the_papers():
    model = GatedLinearAttention(5, start=0.1, state_size=3, stream=STREAM)
    expected = torch.zeros(3, 6)
    expected[0, 0] = expected[1, 1] = expected[2, 2] = 0.1
    assert torch.equal(model.W_B, expected)
    assert torch.equal(model.W_C, expected)
    wide = GatedLinearAttention(5, start=0.1)
    assert torch.equal(wide.W_B, torch.diag(torch.tensor([0.1] * 5 + [0.0])))
    assert torch.equal(gate_of(GatedLinearAttention(5, stream=STREAM)), gate_of(model))
    many = torch.cat([gate_of(GatedLinearAttention(30, stream=Stream(s))) for s in range(200)])
    assert abs(float(many.detach().var()) * 31 - 1) < 0.06  # four standard errors of 6,200 squares
    assert GatedLinearAttention(5, gated=False).w is None
    assert GatedLinearAttention(5, gated=False).gate_parameters() == []
    assert [p.shape for p in model.gate_parameters()] == [(6,)]
    assert model.num_parameters() == 3 * 6 * 2 + 6


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_comes_back(kind, tmp_path: Path):
    model, p = make(kind, state_size=3), draw(2, 7)
    loaded = load_model(save_model(model, tmp_path))
    assert type(loaded) is type(model)
    assert loaded.settings() == model.settings()
    assert loaded.name == model.name
    assert torch.equal(loaded.predict(p), model.predict(p))


def test_wrong_arguments_and_prompts_are_refused():
    wrong: list[dict[str, Any]] = [
        {"start": 0.0},
        {"state_size": 0},
        {"dtype": torch.int64},
        {"gate_start": [1.0]},
        {"gate_start": "no"},
        {"gate_start": [float("nan")] * 5},
        {"gate_start": [0.0] * 5, "gated": False},
    ]
    for arguments in wrong:
        with pytest.raises(InputError) as error:
            GatedLinearAttention(4, **arguments)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="dimension 3; this model was built for 4"):
        make("gated")(draw(2, 3, d=3))
    model = make("linear")
    p = draw(2, 3)
    with pytest.raises(InputError, match="predicts numbers that are not finite"):
        model.predict(Prompts(p.inputs * 1e200, p.labels, 3))
    with torch.no_grad():
        model.W_B.fill_(float("nan"))
    with pytest.raises(InputError, match="weights that are not finite"):
        model.predict(p)
