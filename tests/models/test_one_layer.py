"""The one-layer Mamba against its definition, written out here token by token in NumPy."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.models import (
    EMBEDDINGS,
    MODEL_GATES,
    OneLayerMamba,
    StateBlocks,
    block_degrees,
    embed,
    embedding_dim,
    in_support,
    recurrent_read,
)
from iclab.prompts import Prompts, SingleIndex, Stream

STREAM = Stream(7).child("one layer")
KINDS = list(itertools.product(MODEL_GATES, EMBEDDINGS))
CHUNK_EDGES = [0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130]


def phi(x: np.ndarray, embedding: str) -> np.ndarray:
    """The embedding of arXiv 2510.12026, coordinate by coordinate."""
    d = x.shape[-1]
    if embedding == "identity":
        return x
    columns = [np.ones(x.shape[:-1])] + [x[..., i] for i in range(d)]
    columns += [(x[..., i] ** 2 - 1) / np.sqrt(2) for i in range(d)]
    columns += [x[..., i] * x[..., j] for i in range(d) for j in range(i + 1, d)]
    return np.stack(columns, -1)


def weights_by_definition(labels: np.ndarray, gate: str, rho: float, b: float) -> np.ndarray:
    """``G_j / s(0)`` of one prompt: ``sigmoid(u_j) prod_{k=j+1}^{N+1} (1 - sigmoid(u_k))`` with ``u_{N+1} = b``."""

    def sigmoid(u: float) -> float:
        return 1 / (1 + np.exp(-u))

    if gate == "linear":
        return np.ones(len(labels))
    if gate == "exp":
        return np.exp(labels / rho)
    u = [y / rho + b for y in labels] + [b]
    values = []
    for j in range(len(labels)):
        weight = sigmoid(u[j]) / sigmoid(b)
        for k in range(j + 1, len(u)) if gate == "mamba" else ():
            weight *= 1 - sigmoid(u[k])
        values.append(weight)
    return np.array(values)


def read_by_definition(model: OneLayerMamba, p: Prompts) -> np.ndarray:
    """``M/N`` in units of ``s(0)``."""
    gate = model.label_gate
    gamma = model.gamma.detach().numpy()
    rows = []
    for x, y, queries in zip(p.examples.numpy(), p.example_labels.numpy(), p.queries.numpy(), strict=True):
        g = weights_by_definition(y, gate.gate, gate.rho, gate.b)
        kernel = phi(x, model.embedding) @ (gamma * phi(queries, model.embedding)).T
        rows.append((g * y) @ kernel / max(len(y), 1))
    return np.stack(rows)


def make(
    gate: str = "mamba", embedding: str = "hermite2", d: int = 4, width: int = 24, **settings: Any
) -> OneLayerMamba:
    """A model with random weights, so that no coordinate can be mistaken for another."""
    chosen: dict[str, Any] = {"rho": 0.6, "b": -2.0, "dtype": torch.float64, **settings}
    model = OneLayerMamba(d, width, gate=gate, embedding=embedding, **chosen)
    model.draw_head(STREAM.child("head"))
    generator = STREAM.child("weights").at(0)
    with torch.no_grad():
        model.gamma.normal_(generator=generator)
        model.a2.normal_(generator=generator)
        model.scale.fill_(3.0)
    return model


def draw(batch: int, count: int, queries: int = 2, d: int = 4, link: str = "he3") -> Prompts:
    return SingleIndex(d, 2, link, 0.2).sample(STREAM, batch, count, queries, dtype=torch.float64)


def close(actual: torch.Tensor | np.ndarray, expected: torch.Tensor | np.ndarray, tolerance: float = 1e-10) -> bool:
    actual, expected = np.asarray(actual), np.asarray(expected)
    return actual.shape == expected.shape and bool(
        (np.abs(actual - expected) <= tolerance * (1 + np.abs(expected).max(initial=0))).all()
    )


@pytest.mark.parametrize(("gate", "embedding"), KINDS)
def test_the_fast_read_the_recurrence_and_the_definition_agree(gate, embedding):
    model = make(gate, embedding)
    for count in CHUNK_EDGES:
        p = draw(3, count)
        expected = read_by_definition(model, p)
        assert close(model.read(model.features(p), p.queries).detach(), expected)
        assert close(recurrent_read(model, p), expected)


def test_the_fast_read_and_the_recurrence_agree_at_every_length():
    model, p = make(), draw(2, 130)
    for count in range(131):
        short = p.prefix(count)
        assert close(model.read(model.features(short), short.queries).detach(), recurrent_read(model, short))


@pytest.mark.parametrize(("gate", "embedding"), KINDS)
def test_predictions_along_the_prompt_are_predictions_from_each_prefix(gate, embedding):
    model, p = make(gate, embedding), draw(2, 130, 0)
    along = model.predict_prefixes(p)
    assert along.shape == (2, 130)
    for k in range(130):
        cut = Prompts(p.inputs[:, : k + 1], p.labels[:, : k + 1], k)
        assert close(along[:, k : k + 1], model.predict(cut)), k


@pytest.mark.parametrize("count", CHUNK_EDGES)
def test_predictions_along_the_prompt_do_not_depend_on_what_follows(count):
    model, p = make(), draw(2, 130, 1)
    assert close(model.predict_prefixes(p.prefix(count)), model.predict_prefixes(p)[:, :count], 1e-12)


def test_without_examples_the_state_is_zero_and_the_head_answers():
    model, p = make(), draw(3, 0, 4)
    expected = float(torch.relu(model.a1) @ model.a2.detach())
    assert torch.allclose(model.predict(p), torch.full((3, 4), expected, dtype=torch.float64))
    assert model.gates(p).shape == (3, 0)
    assert model.predict_prefixes(p).shape == (3, 0)


def test_an_empty_batch_has_an_empty_answer():
    model, p = make(), draw(3, 17)
    assert model.predict(p[3:3]).shape == (0, 2)
    assert model.predict_prefixes(p[3:3]).shape == (0, 17)
    assert make("exp").predict(p[3:3]).shape == (0, 2)


def test_the_head_is_the_sum_of_relus():
    model = make(width=5)
    m = torch.linspace(-4, 4, 9, dtype=torch.float64)
    expected = sum(
        a2 * np.maximum(v * m.numpy() / 3.0 + a1, 0)
        for a2, v, a1 in zip(model.a2.tolist(), model.v.tolist(), model.a1.tolist(), strict=True)
    )
    assert close(model.head(m).detach(), np.asarray(expected))


def test_the_embedding_is_that_of_the_paper_and_orthonormal():
    x = np.random.default_rng(0).normal(size=(6, 5))
    assert close(embed(torch.from_numpy(x)), phi(x, "hermite2"))
    assert embedding_dim("hermite2", 16) == 153
    assert embedding_dim("hermite2", 32) == 561
    # Five Gauss-Hermite nodes integrate the products, of degree 4 a coordinate, exactly.
    nodes, mass = np.polynomial.hermite_e.hermegauss(5)
    grid = np.array(list(itertools.product(nodes, repeat=3)))
    weight = np.prod(np.array(list(itertools.product(mass / mass.sum(), repeat=3))), 1)
    features = embed(torch.from_numpy(grid)).numpy()
    assert close(features.T @ (weight[:, None] * features), np.eye(10), 1e-12)


def test_degrees_and_support_follow_the_order_of_the_embedding():
    assert block_degrees("hermite2", 3).tolist() == [0, 1, 1, 1, 2, 2, 2, 2, 2, 2]
    # 1, x0 x1 x2, squares, x0x1 x0x2 x1x2, with support {0, 2}.
    inside = in_support("hermite2", 3, (0, 2)).int().tolist()
    assert inside == [0, 1, 0, 1, 1, 0, 1, 0, 1, 0]
    assert in_support("identity", 3, (1,)).tolist() == [False, True, False]
    assert block_degrees("identity", 2).tolist() == [1, 1]


def test_state_blocks_are_the_state_in_the_coordinates_of_beta():
    model, p = make(), draw(4, 50)
    state = model.features(p)
    assert p.directions is not None
    for i in range(4):
        x, y = p.examples[i].numpy(), p.example_labels[i].numpy()
        c = weights_by_definition(y, "mamba", 0.6, -2.0) * y / 50
        s = c @ phi(x, "hermite2")
        beta = p.directions[i].numpy()
        z = x @ beta
        assert float(state.degree0[i]) == pytest.approx(c.sum(), abs=1e-12)
        assert close(state.degree1[i], s[1:5])
        assert float(state.degree2[i].norm()) == pytest.approx(np.linalg.norm(s[5:]), rel=1e-12)
        assert float(beta @ state.degree2[i].numpy() @ beta) == pytest.approx(c @ (z * z - 1) / 2**0.5, abs=1e-12)
        assert close(state.degree2[i], state.degree2[i].T, 1e-14)


def test_pieces_threads_and_reused_buffers_change_nothing():
    model, p = make(), draw(21, 40)
    alone = StateBlocks.cat([model.features(p[i : i + 1]) for i in range(21)])
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            for _ in range(2):
                together = model.features(p)
                for a, b in zip(dataclasses.astuple(alone), dataclasses.astuple(together), strict=True):
                    assert torch.equal(a, b)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("gate", MODEL_GATES)
def test_only_decay_depends_on_the_order_of_the_examples(gate):
    model, p = make(gate), draw(4, 60)
    order = torch.randperm(60, generator=STREAM.at(1))
    inputs, labels = p.inputs.clone(), p.labels.clone()
    inputs[:, :60], labels[:, :60] = p.inputs[:, order], p.labels[:, order]
    shuffled = dataclasses.replace(p, inputs=inputs, labels=labels, targets=None)
    assert close(model.predict(shuffled), model.predict(p)) == (gate != "mamba")


def test_prompts_are_independent_of_each_other():
    model, p = make(), draw(70, 33)
    order = torch.randperm(70, generator=STREAM.at(2))
    shuffled = Prompts(p.inputs[order], p.labels[order], 33)
    assert close(model.predict(shuffled), model.predict(p)[order], 1e-12)
    assert close(model.predict_prefixes(shuffled), model.predict_prefixes(p)[order], 1e-12)


@pytest.mark.parametrize("gate", MODEL_GATES)
def test_labels_of_the_queries_are_never_read(gate):
    model, p = make(gate), draw(5, 20)
    hidden = p.labels.clone()
    hidden[:, 20:] = float("nan")
    blind = dataclasses.replace(p, labels=hidden, targets=None, directions=None)
    assert torch.equal(model.predict(blind), model.predict(p))
    assert torch.equal(model.predict_prefixes(blind), model.predict_prefixes(p))


def test_clipping_is_clipping_the_labels():
    clipped, plain, p = make(clip=1.5), make(), draw(5, 40)
    by_hand = dataclasses.replace(p, labels=p.labels.clamp(-1.5, 1.5))
    assert torch.equal(clipped.predict(p), plain.predict(by_hand))
    assert torch.equal(clipped.predict_prefixes(p), plain.predict_prefixes(by_hand))
    assert not close(clipped.predict(p), plain.predict(p))
    assert "clipped at 1.5" in clipped.name


def test_predictions_have_the_precision_of_the_prompts():
    p = draw(5, 20)
    assert make().predict(p.to(torch.float32)).dtype == torch.float32
    assert make().predict_prefixes(p).dtype == torch.float64


def test_the_bias_of_the_gate_follows_the_dimension():
    assert OneLayerMamba(16, 4).bias == pytest.approx(-3 * np.log(16))
    assert OneLayerMamba(16, 4, bias_scale=1.5).bias == pytest.approx(-1.5 * np.log(16))
    assert OneLayerMamba(16, 4, b=0.25).label_gate.b == 0.25


def test_settings_rebuild_the_model():
    model, p = make("no_decay", clip=2.0), draw(3, 20)
    again = OneLayerMamba(**model.settings()).double()  # type: ignore[arg-type]
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.predict(p), model.predict(p))


def test_the_head_is_drawn_from_its_stream():
    one, two, other = (OneLayerMamba(4, 20_000) for _ in range(3))
    one.draw_head(Stream(1).child("h"))
    two.draw_head(Stream(1).child("h"))
    other.draw_head(Stream(2).child("h"))
    assert torch.equal(one.v, two.v)
    assert torch.equal(one.a1, two.a1)
    assert not torch.equal(one.a1, other.a1)
    assert set(one.v.tolist()) == {1.0, -1.0}
    assert float(one.a1.abs().max()) <= 1
    # Standard errors of the mean sign, of the mean of Unif[-1, 1] and of its mean square 1/3.
    assert abs(float(one.v.mean())) < 5 / 20_000**0.5
    assert abs(float(one.a1.mean())) < 5 * (1 / 3 / 20_000) ** 0.5
    assert abs(float(one.a1.square().mean()) - 1 / 3) < 5 * (4 / 45 / 20_000) ** 0.5


def test_another_dimension_is_refused():
    p = draw(2, 5, d=5)
    for call in (make().predict, make().predict_prefixes, make().forward):
        with pytest.raises(InputError, match="dimension 5; this model was built for 4"):
            call(p)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_context_that_is_not_finite_is_refused(bad):
    p = draw(2, 5)
    labels, inputs = p.labels.clone(), p.inputs.clone()
    labels[1, 3] = bad
    inputs[0, 6, 2] = bad
    with pytest.raises(InputError, match=r"a context label is (nan|inf) at \(1, 3\)"):
        make().predict(dataclasses.replace(p, labels=labels, trusted=True))
    with pytest.raises(InputError, match=r"an input is (nan|inf) at \(0, 6, 2\)"):
        make().predict_prefixes(dataclasses.replace(p, inputs=inputs, trusted=True))
    # The state and the gates are read without a prediction too.
    for call in (make().features, make().gates, make(clip=2.0).features):
        with pytest.raises(InputError, match=r"a context label is (nan|inf) at \(1, 3\)"):
            call(dataclasses.replace(p, labels=labels, trusted=True))


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"gate": "softmax"}, "the gate is 'softmax'"),
        ({"gate": "retention"}, "the gate is 'retention'"),
        ({"embedding": "hermite3"}, "the embedding is 'hermite3'"),
        ({"rho": 0.0}, "rho"),
        ({"rho": float("nan")}, "rho"),
        ({"b": float("nan")}, "b is nan"),
        ({"b": -1e9}, "b is"),
        ({"b": "a"}, "b is 'a'"),
        ({"b": [1.0]}, "b is"),
        ({"rho": "a"}, "rho is 'a'"),
        ({"bias_scale": -3.0}, "bias_scale is -3.0; expected a finite number > 0"),
        ({"bias_scale": 0.0}, "bias_scale"),
        ({"bias_scale": float("nan")}, "bias_scale"),
        ({"bias_scale": "a"}, "bias_scale is 'a'"),
        ({"dtype": torch.int32}, "dtype is torch.int32"),
        ({"dtype": "float32"}, "dtype is 'float32'"),
        ({"clip": -1.0}, "clip"),
        ({"width": 0}, "width"),
        ({"d": 0}, "ambient_dim"),
        ({"d": 10_000}, "ambient_dim"),
    ],
)
def test_wrong_settings_are_refused(settings, word):
    with pytest.raises(InputError, match=word):
        make(**settings)
