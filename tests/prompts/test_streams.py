"""Streams: a draw is a function of (seed, roles, index) alone, and streams behave as independent."""

import hashlib
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from iclab.errors import InputError
from iclab.prompts import Stream


def normals(generator: torch.Generator, count: int = 64) -> torch.Tensor:
    return torch.randn(count, generator=generator, dtype=torch.float64)


def test_a_generator_does_not_depend_on_what_was_drawn_before():
    first = normals(Stream(3).child("a").child("b").at(7))
    torch.randn(1000)
    for index in (9, 7, 0):
        normals(Stream(3).child("a").child("b").at(index))
    assert torch.equal(first, normals(Stream(3).child("a").child("b").at(7)))


def test_drawing_leaves_the_global_generators_alone():
    torch.manual_seed(0)
    expected = torch.randn(5)
    torch.manual_seed(0)
    normals(Stream(1).at(1))
    Stream(1).numpy(1).normal()
    assert torch.equal(torch.randn(5), expected)


@given(
    st.tuples(st.integers(0, 2**63 - 1), st.lists(st.text(min_size=1, max_size=4), max_size=3), st.integers(0, 2**70)),
    st.tuples(st.integers(0, 2**63 - 1), st.lists(st.text(min_size=1, max_size=4), max_size=3), st.integers(0, 2**70)),
)
def test_different_paths_give_different_draws(one, other):
    def draw(path):
        seed, roles, index = path
        stream = Stream(seed)
        for role in roles:
            stream = stream.child(role)
        return normals(stream.at(index), 4), stream.numpy(index).normal(size=4)

    for a, b in zip(draw(one), draw(other), strict=True):
        assert np.array_equal(np.asarray(a), np.asarray(b)) == (one == other)


def test_roles_do_not_run_together():
    paths = [
        Stream(1).child("ab").at(0),
        Stream(1).child("a").child("b").at(0),
        Stream(1).child('a","b').at(0),
        Stream(1).child("a,b").at(0),
        Stream(1).child("a").at(0),
        Stream(11).at(0),
        Stream(1).child("1").at(0),
        Stream(1).at(10),
        Stream(1).at(1),
    ]
    draws = [normals(generator, 16) for generator in paths]
    assert all(not torch.equal(a, b) for a, b in itertools.combinations(draws, 2))


def test_streams_whose_64_bit_hashes_agree_in_the_lower_32_bits_differ():
    # Seeding an engine with a 64-bit hash keeps only its lower half; among 120,000 paths some pairs then collide.
    def short(index: int) -> int:
        return int.from_bytes(hashlib.blake2b(f"[5,{index}]".encode(), digest_size=8).digest(), "little") % 2**32

    seen: dict[int, int] = {}
    pairs = []
    for index in range(200_000):
        key = short(index)
        if key in seen:
            pairs.append((seen[key], index))
        seen[key] = index
    assert pairs
    for one, other in pairs:
        assert not torch.equal(normals(Stream(5).at(one), 16), normals(Stream(5).at(other), 16))


def test_the_first_draws_of_many_streams_are_all_different():
    # 50,000 draws of 53 bits collide with probability 1e-7; 32-bit seeds, one time in four.
    firsts = torch.empty(50_000, 2, dtype=torch.float64)
    for index, row in enumerate(firsts):
        row.uniform_(generator=Stream(0).at(index))
    assert len(set(firsts[:, 0].tolist())) == len(set(firsts[:, 1].tolist())) == len(firsts)


def test_the_whole_state_of_the_engine_is_filled():
    """A Mersenne Twister seeded with 32 bits has ``word_1 = 1812433253 (word_0 ^ (word_0 >> 30)) + 1``, and so on: all
    of its state follows from the first word, and among 65,536 streams two are the same."""

    def follows(generator: torch.Generator) -> bool:
        words = [int(w) for w in generator.get_state().numpy()[24 : 24 + 8 * 624].view(np.uint64)]
        assert max(words) < 2**32
        return all(words[i] == (1812433253 * (words[i - 1] ^ (words[i - 1] >> 30)) + i) % 2**32 for i in range(1, 624))

    assert follows(torch.Generator().manual_seed(123))
    assert not any(follows(Stream(seed).at(0)) for seed in range(20))


def test_normal_draws_of_many_streams_together_have_the_moments_of_a_normal():
    streams, each = 800, 8_000
    draws = torch.stack([normals(Stream(2).child("moments").at(i), each) for i in range(streams)])
    assert draws.numel() >= 5_000_000
    for power, (moment, second) in enumerate([(0, 1), (1, 3), (0, 15), (3, 105)], start=1):
        error = ((second - moment**2) / draws.numel()) ** 0.5
        assert abs(float((draws**power).mean()) - moment) < 5 * error
    # Means of the streams are normal too: no stream is off, and neighbours are uncorrelated.
    assert kstest((draws.mean(1) * each**0.5).numpy(), "norm").pvalue > 1e-4
    products = (draws[1:] * draws[:-1]).mean(1) * each**0.5
    assert float(products.abs().max()) < 5.5
    assert abs(float(products.mean())) * (streams - 1) ** 0.5 < 5


def test_any_two_of_many_streams_are_uncorrelated():
    draws = torch.stack([normals(Stream(4).at(i), 4000) for i in range(300)])
    draws = torch.cat([draws, torch.from_numpy(np.stack([Stream(4).numpy(i).normal(size=4000) for i in range(300)]))])
    correlations = torch.corrcoef(draws)[*torch.triu_indices(600, 600, 1)] * 4000**0.5
    assert abs(float((correlations**2).mean()) - 1) < 5 * (2 / len(correlations)) ** 0.5
    assert float(correlations.abs().max()) < 6


def test_small_and_odd_sized_draws_are_normal():
    # torch takes another path below 16 values.
    draws = torch.cat([normals(Stream(6).at(i), 5) for i in range(8000)])
    assert kstest(draws.numpy(), "norm").pvalue > 1e-4


@pytest.mark.parametrize("seed", [1.0, "1", None, True, -1, 2**63, float("nan"), [1]])
def test_seeds_that_are_no_integers_are_refused(seed):
    with pytest.raises(InputError, match="seed"):
        Stream(seed)


def test_numpy_integers_are_integers():
    assert torch.equal(normals(Stream(np.int64(3)).at(np.int32(2))), normals(Stream(3).at(2)))  # type: ignore[arg-type]


@pytest.mark.parametrize("index", [-1, 0.5, "0", None, False])
def test_indices_that_are_no_counts_are_refused(index):
    with pytest.raises(InputError, match="index of a stream"):
        Stream(0).at(index)
    with pytest.raises(InputError, match="index of a stream"):
        Stream(0).numpy(index)


@pytest.mark.parametrize("role", ["", 3, None])
def test_roles_that_are_no_names_are_refused(role):
    with pytest.raises(InputError, match="role"):
        Stream(0).child(role)
