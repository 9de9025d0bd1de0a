"""Single-index prompts: data that do not depend on how they are asked for, and the law of each part."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from iclab.errors import InputError
from iclab.links import make_link
from iclab.prompts import (
    CHUNK,
    INPUT_DISTRIBUTIONS,
    InputDistribution,
    PromptDistribution,
    Prompts,
    SingleIndex,
    Stream,
)
from iclab.prompts.active_inputs import ActiveInputs
from iclab.prompts.distribution import draw_checked

SIZES: dict[str, Any] = {"ambient_dim": 4, "intrinsic_dim": 2}
COUNTS: dict[str, Any] = {"num_prompts": 1, "num_examples": 1}
STREAM = Stream(11).child("single-index test")
LAWS = {kind: SingleIndex(5, 2, "he3", 0.1, inputs=kind) for kind in INPUT_DISTRIBUTIONS}


def parts(p: Prompts) -> tuple[torch.Tensor, ...]:
    assert p.targets is not None
    assert p.directions is not None
    return p.inputs, p.labels, p.targets, p.directions


def directions(p: Prompts) -> torch.Tensor:
    assert p.directions is not None
    return p.directions


def same(one: Prompts, other: Prompts) -> bool:
    return all(torch.equal(a, b) for a, b in zip(parts(one), parts(other), strict=True))


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", INPUT_DISTRIBUTIONS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_prompt_does_not_depend_on_the_batch_around_it(kind, data):
    distribution = LAWS[kind]
    whole = distribution.sample(STREAM, 40, 7, 3)
    start = data.draw(st.integers(0, 39))
    count = data.draw(st.integers(1, 40 - start))
    assert same(distribution.sample(STREAM, count, 7, 3, start=start), whole[start : start + count])


@pytest.mark.parametrize("kind", INPUT_DISTRIBUTIONS)
def test_a_prompt_does_not_depend_on_the_number_of_threads(kind, threads):
    threads(1)
    one = LAWS[kind].sample(STREAM, 100, 33, 2)
    threads(2)
    two = LAWS[kind].sample(STREAM, 100, 33, 2)
    assert torch.get_num_threads() == 2
    assert same(one, two)


@pytest.mark.parametrize("rotation", [None, "random"])
def test_a_prompt_has_the_same_task_at_every_length_and_precision(rotation):
    distribution = SingleIndex(6, 3, rotation=rotation)
    long = directions(distribution.sample(STREAM, 20, 50, 1, dtype=torch.float64))
    for count, queries in [(0, 1), (3, 0), (0, 0), (17, 5)]:
        assert torch.equal(directions(distribution.sample(STREAM, 20, count, queries, dtype=torch.float64)), long)
    assert torch.allclose(directions(distribution.sample(STREAM, 20, 50, 1)).double(), long, atol=1e-6)


def test_a_buffer_changes_nothing():
    distribution = LAWS["gaussian"]
    buffer = torch.full((CHUNK, 9, 5), float("nan"))
    with_buffer = distribution.draw_chunks([STREAM.at(0)], 7, 2, torch.float32, buffer)
    assert same(with_buffer, distribution.draw_chunks([STREAM.at(0)], 7, 2, torch.float32))
    assert with_buffer.inputs.data_ptr() == buffer.data_ptr()


def test_streams_and_numbers_give_different_prompts():
    distribution = LAWS["gaussian"]
    one = distribution.sample(STREAM, 16, 3)
    assert not torch.equal(one.inputs[:8], one.inputs[8:])
    assert not torch.equal(one.inputs, distribution.sample(STREAM.child("other"), 16, 3).inputs)


@pytest.mark.parametrize("rotation", [None, "random"])
@pytest.mark.parametrize("link", ["he3", "sign", "relu", "sin(2*z)"])
def test_labels_are_the_link_of_the_projection(rotation, link):
    distribution = SingleIndex(7, 3, link, rotation=rotation, seed=3)
    p = distribution.sample(STREAM, 30, 20, 2, dtype=torch.float64)
    z = torch.einsum("bnd,bd->bn", p.inputs, directions(p))
    expected = {
        "he3": (z**3 - 3 * z) / 6**0.5,
        "sign": z.sign(),
        "relu": z.clamp(min=0),
        "sin(2*z)": (2 * z).sin(),
    }[link]
    assert torch.allclose(p.labels, expected, atol=1e-12)
    assert torch.equal(p.labels, parts(p)[2])
    assert torch.allclose(distribution.index(p), z, atol=1e-12)


def test_directions_are_uniform_unit_vectors_on_one_support():
    distribution = SingleIndex(10, 4, seed=5)
    beta = directions(distribution.sample(STREAM, 20_000, 0, 0, dtype=torch.float64))
    assert torch.allclose(beta.norm(dim=1), torch.ones(20_000, dtype=torch.float64), atol=1e-14)
    outside = [i for i in range(10) if i not in distribution.support]
    assert not beta[:, outside].any()
    inside = beta[:, list(distribution.support)]
    # Uniform on the sphere of R^4: E b = 0, E b_i b_j = delta/4, E b_i^4 = 3/24.
    assert float(inside.mean(0).abs().max()) < 5 * (0.25 / 20_000) ** 0.5
    second = inside.T @ inside / 20_000 - torch.eye(4) / 4
    assert float(second.abs().max()) < 5 * (1 / 16 / 20_000) ** 0.5
    assert float(((inside**4).mean(0) - 1 / 8).abs().max()) < 5 * 0.17 / 20_000**0.5


def test_the_support_is_drawn_from_the_seed():
    supports = {SingleIndex(12, 3, seed=seed).support for seed in range(30)}
    assert len(supports) > 20
    assert SingleIndex(12, 3, seed=4).support == SingleIndex(12, 3, "relu", 0.5, seed=4).support
    assert all(len(set(s)) == 3 and set(s) <= set(range(12)) for s in supports)
    assert SingleIndex(12, 3, support=[7, 0, 2]).support == (7, 0, 2)
    counts = np.bincount([i for seed in range(600) for i in SingleIndex(6, 2, seed=seed).support], minlength=6)
    assert np.abs(counts - 200).max() < 5 * (600 * (1 / 3) * (2 / 3)) ** 0.5


def test_a_random_rotation_is_orthogonal_and_moves_the_support():
    distribution = SingleIndex(9, 2, rotation="random", seed=1)
    rotation = distribution.rotation
    assert rotation is not None
    assert torch.allclose(rotation @ rotation.T, torch.eye(9, dtype=torch.float64), atol=1e-13)
    beta = directions(distribution.sample(STREAM, 40, 0, 0, dtype=torch.float64))
    assert torch.allclose(beta.norm(dim=1), torch.ones(40, dtype=torch.float64))
    assert int(torch.linalg.matrix_rank(beta)) == 2
    assert (beta.abs() > 1e-6).float().mean() > 0.95
    other = SingleIndex(9, 2, rotation="random", seed=2).rotation
    assert other is not None
    assert not torch.equal(other, rotation)


def test_a_given_rotation_acts_on_the_directions():
    # The rotation e_0 -> e_1 -> e_2 -> e_0 sends a direction on coordinate 0 to coordinate 1.
    cycle = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    beta = directions(SingleIndex(3, 1, support=[0], rotation=cycle).sample(STREAM, 8, 0, 0))
    assert torch.equal(beta.abs(), torch.tensor([[0.0, 1.0, 0.0]]).expand(8, 3))


def test_noise_takes_two_values_with_equal_probability():
    p = SingleIndex(3, 2, "tanh", noise=0.25).sample(STREAM, 800, 100, 1, dtype=torch.float64)
    _, labels, targets, _ = parts(p)
    noise = labels - targets
    assert torch.allclose(noise.abs(), torch.full_like(noise, 0.25), atol=1e-15)
    plus = (noise > 0).double()
    assert abs(float(plus.mean()) - 0.5) < 5 * 0.5 / plus.numel() ** 0.5
    # Independent of the target and of its neighbours.
    signs = 2 * plus - 1
    assert abs(float((signs * targets).mean())) < 5 * float(targets.std()) / plus.numel() ** 0.5
    assert abs(float((signs[:, 1:] * signs[:, :-1]).mean())) < 5 / plus.numel() ** 0.5


@pytest.mark.parametrize("link", ["he3", "he2", "sign", "relu", "2*exp(-3/2)*sin(z)-sin(2*z)"])
def test_standardised_links_have_labels_of_variance_one(link):
    distribution = SingleIndex(4, 2, make_link(link, standardise=True))
    y = distribution.sample(STREAM, 4000, 50, 0, dtype=torch.float64).labels
    count = y.numel()
    # Examples of one prompt are independent given beta, and beta does not change the law of the labels.
    assert abs(float(y.mean())) < 5 / count**0.5
    assert abs(float(y.square().mean()) - 1) < 5 * float(y.square().std()) / count**0.5 + 1e-12


@pytest.mark.parametrize(("kind", "kurtosis"), [("gaussian", 3.0), ("rademacher", 1.0), ("uniform", 1.8)])
def test_input_laws_have_mean_0_variance_1_and_their_kurtosis(kind, kurtosis):
    x = SingleIndex(5, 2, inputs=kind).sample(STREAM, 1000, 50, 0, dtype=torch.float64).inputs.reshape(-1, 5)
    count = x.numel()
    assert abs(float(x.mean())) < 5 / count**0.5
    assert abs(float((x**2).mean()) - 1) < 5 * max(kurtosis - 1, 1e-9) ** 0.5 / count**0.5
    assert abs(float((x**4).mean()) - kurtosis) < 5 * float((x**4).std() + 1e-12) / count**0.5
    off = x.T @ x / len(x) - torch.diag((x**2).mean(0))
    assert float(off.abs().max()) < 5 / len(x) ** 0.5


def test_student_inputs_are_student():
    # Kurtosis of Student's t with 12 degrees of freedom: 3 + 6/(12-4) = 3.75; its 8th moment is finite.
    distribution = InputDistribution("student_t", df=12.0)
    x = SingleIndex(5, 2, inputs=distribution).sample(STREAM, 2000, 50, 0, dtype=torch.float64).inputs
    assert abs(float(x.mean())) < 5 / x.numel() ** 0.5
    assert abs(float((x**2).mean()) - 1) < 5 * (2.75 / x.numel()) ** 0.5
    assert abs(float((x**4).mean()) - 3.75) < 5 * float((x**4).std()) / x.numel() ** 0.5


def test_a_covariance_is_the_covariance_of_the_inputs():
    wanted = ((2.0, 0.5, 0.0), (0.5, 1.0, -0.3), (0.0, -0.3, 0.7))
    distribution = SingleIndex(3, 1, inputs=InputDistribution(covariance=wanted))
    x = distribution.sample(STREAM, 2000, 50, 0, dtype=torch.float64).inputs.reshape(-1, 3)
    sigma = torch.tensor(wanted, dtype=torch.float64)
    spread = (sigma**2 + sigma.diagonal()[:, None] * sigma.diagonal()[None, :]).sqrt()
    assert bool(((x.T @ x / len(x) - sigma).abs() < 5 * spread / len(x) ** 0.5).all())
    assert float((x**4).mean(0)[0] / 3 / 4) == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"intrinsic_dim": 5}, "intrinsic_dim is 5 and ambient_dim 4"),
        ({"intrinsic_dim": 0}, "intrinsic_dim"),
        ({"ambient_dim": 0}, "ambient_dim"),
        ({"ambient_dim": 10**9}, "ambient_dim"),
        ({"ambient_dim": 4.0}, "ambient_dim"),
        ({"noise": -0.1}, "noise"),
        ({"noise": float("inf")}, "noise"),
        ({"noise": float("nan")}, "noise"),
        ({"noise": "0.1"}, "noise"),
        ({"support": [0, 0]}, "support"),
        ({"support": [0]}, "support"),
        ({"support": [0, 4]}, "support"),
        ({"support": [-1, 0]}, "support"),
        ({"support": 3}, "support"),
        ({"support": [0.5, 1]}, "support"),
        ({"rotation": "fixed"}, "rotation"),
        ({"rotation": np.eye(3)}, "rotation has shape"),
        ({"rotation": 2 * np.eye(4)}, "not orthogonal"),
        ({"rotation": [[1, 0], [0]]}, "no rectangular array of real numbers"),
        ({"inputs": "cauchy"}, "cauchy"),
        ({"inputs": InputDistribution(covariance=((1.0,),))}, "covariance"),
        ({"link": "exp(z**2)"}, "link"),
        ({"seed": -1}, "seed"),
        ({"seed": 0.5}, "seed"),
    ],
)
def test_wrong_arguments_are_refused(arguments, word):
    with pytest.raises(InputError, match=word):
        SingleIndex(**(SIZES | arguments))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"df": 2.0}, "df"),
        ({"df": float("nan")}, "df"),
        ({"covariance": ((1.0, 2.0), (2.0, 1.0))}, "positive definite"),
        ({"covariance": ((1.0, 0.2), (0.1, 1.0))}, "symmetric"),
        ({"covariance": ((1.0, 0.0),)}, "square"),
        ({"covariance": ((1.0, 0.0), (0.0,))}, "rectangular"),
        ({"covariance": ((float("nan"),),)}, "finite"),
    ],
)
def test_wrong_input_laws_are_refused(arguments, word):
    with pytest.raises(InputError, match=word):
        InputDistribution("student_t", **arguments)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"num_prompts": 0}, "num_prompts"),
        ({"num_prompts": 2.5}, "num_prompts"),
        ({"num_examples": -1}, "num_examples"),
        ({"num_queries": -1}, "num_queries"),
        ({"start": -1}, "start"),
        ({"dtype": torch.int64}, "dtype"),
    ],
)
def test_wrong_sizes_are_refused(arguments, word):
    with pytest.raises(InputError, match=word):
        SingleIndex(4, 2).sample(STREAM, **(COUNTS | arguments))


@pytest.mark.parametrize(("prompts", "examples"), [(10**12, 1), (1, 10**13), (10**6, 10**6)])
def test_sizes_that_no_memory_holds_are_refused_before_anything_is_drawn(prompts, examples):
    with pytest.raises(
        InputError, match=r"would take [\d.e+]+ (TB|PB|EB) of memory and this machine has [\d.]+ [MGT]B"
    ):
        SingleIndex(16, 2).sample(STREAM, prompts, examples)


def test_the_projection_needs_directions():
    p = Prompts.from_arrays([[1.0, 2.0]], [1.0], [[0.0, 1.0]])
    with pytest.raises(InputError, match="directions"):
        SingleIndex(2, 1).index(p)


def test_a_covariance_in_the_place_of_a_law_is_explained_and_a_law_is_a_value():
    with pytest.raises(InputError, match=r"InputDistribution\(covariance=...\)"):
        SingleIndex(4, 2, "he3", inputs=np.eye(4))  # type: ignore[arg-type]
    matrix = np.eye(3)
    first, second = InputDistribution(covariance=matrix), InputDistribution(covariance=np.eye(3).tolist())
    assert first == second
    assert hash(first) == hash(second)
    matrix[0, 0] = 7.0
    assert first == second


def test_a_seed_in_the_place_of_a_stream_is_explained():
    with pytest.raises(InputError, match="expected a Stream"):
        SingleIndex(4, 2, "he3").sample(0, 8, 4, 1)  # type: ignore[arg-type]


class Rows(PromptDistribution):
    """A family that is given one generator at a time."""

    ambient_dim = 3

    def draw_chunks(self, generators, num_examples, num_queries, dtype, buffer=None):
        (generator,) = generators
        inputs = torch.empty(CHUNK, num_examples + num_queries, 3, dtype=dtype) if buffer is None else buffer
        inputs.normal_(generator=generator)
        return Prompts(
            inputs, inputs[..., 0], num_examples, inputs[..., 0], torch.eye(CHUNK, 3, dtype=dtype), trusted=True
        )


class Shifted(SingleIndex):
    """A family made of another one."""

    def draw_chunks(self, *arguments: Any, **options: Any) -> Prompts:
        chunk = super().draw_chunks(*arguments, **options)
        return Prompts(chunk.inputs, chunk.labels + 1, chunk.num_examples, chunk.targets, chunk.directions)


def strange(z):
    """No elementwise function: it depends on the array that it is given."""
    return z + z.mean() if z.ndim > 1 else z


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(
    "distribution",
    [
        SingleIndex(40, 1, "he3", 0.3),
        SingleIndex(7, 3, [0.1, 0.2, 0.3, 0.1, 0.0, 0.2, 0.1, 0.1, 0.2, 0.1, 0.3, 0.1], 0.3),
        SingleIndex(40, 7, "tanh", 0.3),
        SingleIndex(40, 33, "z2exp", 0.3, rotation="random"),
        SingleIndex(40, 2, strange, 0.3, rotation="random"),
        SingleIndex(4, 2, inputs=InputDistribution("student_t")),
        Shifted(5, 2),
    ],
)
def test_chunks_at_once_are_those_one_by_one(distribution: PromptDistribution, count: int):
    generators = [STREAM.at(chunk) for chunk in range(count)]
    buffer = torch.full((count * CHUNK, 8, distribution.ambient_dim), float("nan"))
    together = draw_checked(distribution, generators, 7, 1, torch.float32, buffer)
    singles = Prompts.cat([distribution.draw_chunks([STREAM.at(chunk)], 7, 1, torch.float32) for chunk in range(count)])
    assert same(together, singles)
    assert same(distribution.sample(STREAM, count * CHUNK, 7), singles)
    assert torch.equal(buffer, singles.inputs)


def test_a_family_is_given_no_more_generators_than_it_asks_for():
    whole = Rows().sample(STREAM, 5 * CHUNK, 4)
    for chunk in range(5):
        rows = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        assert same(whole[rows], draw_checked(Rows(), [STREAM.at(chunk)], 4, 1, torch.float32))


def test_a_family_made_of_another_draws_its_own_labels():
    plain = SingleIndex(5, 2).sample(STREAM, 40, 3)
    assert torch.equal(Shifted(5, 2).sample(STREAM, 40, 3).labels, plain.labels + 1)
    assert Shifted.chunks_at_once == SingleIndex.chunks_at_once > 1
    hidden = ActiveInputs(SingleIndex(5, 2), (0, 3))
    drawn = hidden.sample(STREAM, 40, 3)
    assert torch.equal(drawn.inputs[..., [0, 3]], plain.inputs[..., [0, 3]])
    assert not drawn.inputs[..., [1, 2, 4]].any()


@pytest.mark.parametrize(
    "distribution",
    [
        SingleIndex(17, 17, "he3", rotation="random"),
        SingleIndex(17, 2, "tanh", inputs=InputDistribution(covariance=np.eye(17) + 0.1)),
    ],
)
def test_one_chunk_does_not_depend_on_threads(distribution: SingleIndex, threads):
    batches = []
    for number in (1, 2, 3, 4):
        threads(number)
        batches += [distribution.sample(STREAM, CHUNK, 100), distribution.sample(STREAM, 3 * CHUNK, 100)[:CHUNK]]
    assert all(same(batches[0], batch) for batch in batches)


def test_a_link_may_use_its_result_again():
    kept = torch.empty(CHUNK, 6)

    def link(z: Any) -> Any:
        return torch.tanh(z, out=kept) if isinstance(z, torch.Tensor) and z.shape == kept.shape else np.tanh(z)

    for noise in (0.0, 0.3):
        batch = SingleIndex(5, 2, link, noise).sample(STREAM, 40, 5)
        expected = SingleIndex(5, 2, "tanh", noise).sample(STREAM, 40, 5)
        torch.testing.assert_close(batch.labels, expected.labels)


def test_the_place_of_a_bad_label_is_in_its_chunk():
    distribution = SingleIndex(5, 2, "1e37*exp(z)")
    with pytest.raises(InputError, match=r"is inf at \([0-7], \d+\)"):
        distribution.sample(STREAM, 2000, 200)
