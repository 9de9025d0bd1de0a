"""Ranges in short: what they stand for, and what is said of those that stand for nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iclab.config.overrides import parse_override
from iclab.config.ranges import MAX_CELLS, expand_lists, expand_range
from iclab.errors import InputError

SMALL = st.integers(-50, 50)


@given(SMALL, SMALL, st.integers(-7, 7).filter(bool))
def test_steps_are_those_of_counting(first: int, last: int, step: int) -> None:
    numbers = itertools.takewhile(lambda n: n <= last if step > 0 else n >= last, itertools.count(first, step))
    assert expand_range(f"{first}..{last}..{step}") == list(numbers)
    assert expand_range(f"{first}..{last}") == list(range(first, last + 1))


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 40))
def test_geometric_ranges_round_numpy_s_when_whole(first: int, last: int, count: int) -> None:
    exact = np.geomspace(first, last, count)
    floats = expand_range(f"geom({first}.0, {last}, {count})") if first != last else None
    if floats is not None:
        np.testing.assert_allclose(floats, exact, rtol=1e-12)
        assert (floats[0], floats[-1]) == (first, last)
    text = f"geom({first}, {last}, {count})"
    if len(set(np.rint(exact))) < count - 1:
        with pytest.raises(InputError, match="gives a number twice"):
            expand_range(text)
    elif np.diff(np.sort(exact)).min() > 1.01:
        whole = expand_range(text)
        assert whole is not None
        assert all(type(number) is int for number in whole)
        assert np.abs(np.array(whole) - exact).max() <= 0.5 + 1e-6


def test_linear_ranges() -> None:
    assert expand_range("lin(0.0, 1.0, 5)") == [0, 0.25, 0.5, 0.75, 1]
    assert expand_range("lin(10, 0, 3)") == [10, 5, 0]
    assert expand_range("geom(16, 4096, 9)") == [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
    assert expand_range("geom(-1.0, -4, 3)") == [-1, -2, -4]


@pytest.mark.parametrize("text", ["he3", "0.5", "0..", "..9", "0..9..", "z**2", "geometry", "lin", "a..b"])
def test_what_is_no_range_is_left(text: str) -> None:
    assert expand_range(text) is None
    assert expand_lists([text, {"a": [text]}]) == [text, {"a": [text]}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0..9..0", "has the step 0"),
        (f"0..{MAX_CELLS}", f"has {MAX_CELLS + 1} values; expected at most {MAX_CELLS}"),
        ("0.." + "9" * 299, "values; expected at most"),
        (f"{'9' * 299}..0..-1", "values; expected at most"),
        ("geom(1, 4)", "has 2 numbers; expected geom(first, last, count)"),
        ("geom(0, 4, 3)", "goes from 0 to 4; expected two numbers > 0"),
        ("geom(-1, 4, 3)", "goes from -1 to 4"),
        ("geom(1, 4, 1)", "asks for 1 values; expected a whole"),
        ("geom(1, 4, 2.0)", "asks for 2.0 values"),
        ("geom(1, 4, true)", "has 'true'; expected a number"),
        ("lin(1, .inf, 3)", "has '.inf'; expected a number"),
        ("geom(1, 1e200, 3)", "has '1e200'; expected a number"),
        ("lin(1, 2, 5)", "gives a number twice; ask for fewer values or write 1.0 for values between whole"),
        ("lin(1.0, 1.0, 2)", "gives a number twice"),
        ("geom(1, , 3)", "has ''; expected a number"),
        ("geom(1", "is not complete; expected geom(first, last, count)"),
    ],
)
def test_ranges_that_stand_for_nothing(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        expand_range(text)
    assert message in str(caught.value)


def test_ranges_on_the_command_line() -> None:
    assert parse_override("d=8..32..8,64").values == (8, 16, 24, 32, 64)
    assert parse_override("n=geom(16, 64, 3)").is_axis
    assert parse_override("n=geom(16, 64, 3)").values == (16, 32, 64)
    lists = parse_override("n=[1..3, geom(16, 64, 3), 100]")
    assert not lists.is_axis
    assert lists.values == ([1, 2, 3, 16, 32, 64, 100],)
    assert parse_override("n=[0..1],[lin(4, 6, 2)]").values == ([0, 1], [4, 6])
    assert parse_override('link="geom(1, 2, 3)"').values == ("geom(1, 2, 3)",)
    assert parse_override("p={n: [geom(2, 8, 3)], link: he3}").values == ({"n": [2, 4, 8], "link": "he3"},)
