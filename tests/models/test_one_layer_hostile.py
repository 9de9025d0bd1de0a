"""The one-layer Mamba at the edge of floating point: huge labels, shut gates, against 50-digit arithmetic."""

import dataclasses

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.errors import InputError
from iclab.models import OneLayerMamba, embed
from iclab.models.one_layer.label_gate import LabelGate
from iclab.prompts import Prompts, SingleIndex, Stream

STREAM = Stream(8).child("hostile")
SIGMOID = ["mamba", "no_decay"]


def sigmoid(u: mpmath.mpf) -> mpmath.mpf:
    return 1 / (1 + mpmath.exp(-u))


def exact_weights(labels: list[float], gate: str, rho: float, b: float) -> list[mpmath.mpf]:
    """``G_j / s(0)`` in 50 digits, multiplied out from the end."""
    with mpmath.workdps(50):
        kept = 1 - sigmoid(mpmath.mpf(b)) if gate == "mamba" else mpmath.mpf(1)
        weights = []
        for y in reversed(labels):
            u = mpmath.mpf(y) / mpmath.mpf(rho) + mpmath.mpf(b)
            gain = sigmoid(u) / sigmoid(mpmath.mpf(b)) if gate != "linear" else mpmath.mpf(1)
            weights.append(gain * kept)
            if gate == "mamba":
                kept *= sigmoid(-u)
        return weights[::-1]


def hostile(batch: int, count: int, dtype: torch.dtype, seed: int) -> Prompts:
    """He_3 prompts in which a tenth of the labels are replaced by values of magnitude 1e-300 to 1e6."""
    p = SingleIndex(3, 2, "he3").sample(STREAM, batch, count, 2, start=100 * seed, dtype=dtype)
    rng = np.random.default_rng(seed)
    labels = p.labels.clone()
    for _ in range(max(1, batch * count // 10)):
        size = 10.0 ** float(rng.choice([-300, -30, -3, 1, 2, 3, 4, 5, 6]))
        labels[int(rng.integers(batch)), int(rng.integers(count))] = float(rng.choice([-1, 1])) * size
    return dataclasses.replace(p, labels=labels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gate", [*SIGMOID, "linear"])
@pytest.mark.parametrize(("rho", "b"), [(0.5, -9.0), (0.1, -40.0), (2.0, 0.0), (0.05, 5.0)])
def test_huge_labels_anywhere_give_the_exact_answer(dtype, gate, rho, b):
    model = OneLayerMamba(3, 16, gate=gate, rho=rho, b=b, dtype=dtype)
    model.draw_head(STREAM.child("head"))
    with torch.no_grad():
        model.gamma.normal_(generator=STREAM.at(0))
        model.a2.normal_(generator=STREAM.at(1))
    for seed, count in enumerate([1, 2, 16, 17, 40]):
        p = hostile(4, count, dtype, seed)
        m = model.read(model.features(p), p.queries).detach()
        for values in (model.gates(p), m, model.predict(p), model.predict_prefixes(p)):
            assert bool(torch.isfinite(values).all())
        gamma = model.gamma.detach().double()
        kernel = embed(p.examples.double()) @ (gamma * embed(p.queries.double())).transpose(1, 2)
        magnitude = (
            torch.linalg.vector_norm(embed(p.examples.double()), dim=-1)[..., None]
            * torch.linalg.vector_norm(gamma * embed(p.queries.double()), dim=-1)[:, None]
        )
        for i in range(4):
            labels = p.example_labels[i].tolist()
            terms = [w * y for w, y in zip(exact_weights(labels, gate, rho, b), labels, strict=True)]
            for q in range(2):
                exact = sum(t * k for t, k in zip(terms, kernel[i, :, q].tolist(), strict=True)) / count
                size = sum(abs(t) * k for t, k in zip(terms, magnitude[i, :, q].tolist(), strict=True)) / count
                tolerance = 1e-4 if dtype == torch.float32 else 1e-12
                assert abs(float(m[i, q]) - exact) <= tolerance * size


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gate", SIGMOID)
def test_prefixes_survive_huge_labels(dtype, gate):
    model = OneLayerMamba(3, 16, gate=gate, rho=0.5, b=-9.0, dtype=dtype)
    model.draw_head(STREAM.child("head"))
    with torch.no_grad():
        model.a2.normal_(generator=STREAM.at(1))
        model.scale.fill_(100.0)
    p = hostile(4, 50, dtype, 9)
    along = model.predict_prefixes(p)
    for k in range(50):
        cut = model.predict(Prompts(p.inputs[:, : k + 1], p.labels[:, : k + 1], k))[:, 0]
        tolerance = 1e-3 if dtype == torch.float32 else 1e-10
        # One label of 1e6 sets the scale of every state that holds it, so compare prompt by prompt.
        assert bool(((along[:, k] - cut).abs() <= tolerance * (1 + along[:, : k + 1].abs().amax(1))).all()), k


@settings(max_examples=200, deadline=None)
@given(
    y=st.floats(-1e6, 1e6, allow_subnormal=False),
    rho=st.floats(0.05, 20),
    b=st.floats(-60, 30),
    double=st.booleans(),
)
def test_zero_order_hold_in_logs(y, rho, b, double):
    """Gain ``sigmoid(u)``, decay exactly ``1 - sigmoid(u)``, at any label."""
    dtype = torch.float64 if double else torch.float32
    gate = LabelGate("mamba", rho, b)
    label = torch.tensor([y], dtype=dtype)
    with mpmath.workdps(60):
        u = mpmath.mpf(float(label)) / mpmath.mpf(rho) + mpmath.mpf(b)
        gain = float(mpmath.log(sigmoid(u)) - mpmath.log(sigmoid(mpmath.mpf(b))))
        keep = float(mpmath.log(1 / (1 + mpmath.exp(u))))
        query = float(mpmath.log(1 / (1 + mpmath.exp(mpmath.mpf(b)))))
    # Rounding of u = y/rho + b reaches the logs unchanged.
    slack = 8 * torch.finfo(dtype).eps * (1 + abs(y / rho) + abs(b))
    assert float(gate.log_gain(label)) == pytest.approx(gain, rel=1e-5 if not double else 1e-13, abs=slack)
    assert float(gate.log_keep(label)) == pytest.approx(keep, rel=1e-5 if not double else 1e-13, abs=slack)
    assert gate.log_query() == pytest.approx(query, rel=1e-13)


def test_the_order_of_a_huge_label_decides_what_is_remembered():
    """A label that opens the gate erases the examples before it and none after it."""
    model = OneLayerMamba(3, 4, gate="mamba", rho=0.5, b=-9.0, dtype=torch.float64)
    p = SingleIndex(3, 2, "tanh").sample(STREAM, 1, 20, 1, dtype=torch.float64)
    labels = p.labels.clone()
    labels[0, 10] = 1e6
    log_weights = model.gates(dataclasses.replace(p, labels=labels))[0]
    assert bool((log_weights[:10] < -1e6).all())
    assert torch.equal(log_weights[11:], model.gates(p)[0, 11:])


@pytest.mark.parametrize("b", [-20.0, -40.0, -60.0])
def test_a_nearly_shut_gate_keeps_its_direction_in_float32(b):
    p = SingleIndex(6, 3, "he3", 0.1).sample(STREAM, 16, 200, 1, dtype=torch.float64)
    exact = OneLayerMamba(6, 4, gate="mamba", rho=0.5, b=b, dtype=torch.float64).features(p)
    single = OneLayerMamba(6, 4, gate="mamba", rho=0.5, b=b, dtype=torch.float32).features(p.to(torch.float32))
    for block in ("degree1", "degree2"):
        one, two = getattr(exact, block).flatten(1), getattr(single, block).double().flatten(1)
        cosine = torch.nn.functional.cosine_similarity(one, two)
        assert float(cosine.min()) > 1 - 1e-8
        assert bool((two.norm(dim=1) > 0).all())


def test_the_exponential_gate_says_when_it_overflows():
    model = OneLayerMamba(3, 4, gate="exp", rho=0.5)
    p = SingleIndex(3, 2, "he3").sample(STREAM, 2, 30, 1)
    labels = p.labels.clone()
    labels[1, 7] = 50.0
    with pytest.raises(InputError, match=r"label 50 at rho = 0.5 has weight exp\(100\)"):
        model.predict(dataclasses.replace(p, labels=labels))
    labels[1, 7] = -1e6
    assert bool(torch.isfinite(model.predict(dataclasses.replace(p, labels=labels))).all())


def test_a_sigmoid_gate_whose_weights_leave_float32_says_so():
    model = OneLayerMamba(3, 4, gate="mamba", rho=0.5, b=-100.0)
    p = SingleIndex(3, 2, "tanh").sample(STREAM, 2, 30, 1)
    assert bool(torch.isfinite(model.predict(p)).all())
    labels = p.labels.clone()
    labels[0, 3] = 1e4
    with pytest.raises(InputError, match="overflows"):
        model.predict(dataclasses.replace(p, labels=labels))
    with pytest.raises(InputError, match="overflows"):
        model.predict_prefixes(dataclasses.replace(p, labels=labels))


@pytest.mark.parametrize("clip", [1e39, 1e308])
def test_a_clip_beyond_the_labels_dtype_clips_nothing(clip: float):
    prompts = SingleIndex(4, 2, "he3").sample(STREAM, 8, 16, 2)
    assert prompts.example_labels.dtype == torch.float32
    torch.manual_seed(0)
    plain = OneLayerMamba(4, 8)
    clipped = OneLayerMamba(4, 8, clip=clip)
    clipped.load_state_dict(plain.state_dict())
    assert torch.equal(clipped.predict(prompts), plain.predict(prompts))
