"""The grammar of ``key=value``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iclab.config.overrides import parse_override, parse_overrides
from iclab.config.ranges import MAX_CELLS
from iclab.errors import InputError


@pytest.mark.parametrize(
    ("argument", "key", "values", "is_axis"),
    [
        ("a.b=32", "a.b", (32,), False),
        ("--a.b=32", "a.b", (32,), False),
        ("a=32.0", "a", (32.0,), False),
        ("a=1e-4", "a", (1e-4,), False),
        ("a=-1E+3", "a", (-1000.0,), False),
        ("a=true", "a", (True,), False),
        ("a=null", "a", (None,), False),
        ("a=he3", "a", ("he3",), False),
        ("a=z**3 - 3*z", "a", ("z**3 - 3*z",), False),
        ("a=[64,256]", "a", ([64, 256],), False),
        ("a=[0,0,0,1]", "a", ([0, 0, 0, 1],), False),
        ("a=[[1,2],[3]]", "a", ([[1, 2], [3]],), False),
        ("a=maximum(z,0)", "a", ("maximum(z,0)",), False),
        ("a='he3, he4'", "a", ("he3, he4",), False),
        ('a="0..9"', "a", ("0..9",), False),
        ("a='1:30'", "a", ("1:30",), False),
        ("a='010'", "a", ("010",), False),
        ("a=0", "a", (0,), False),
        ("a=-0.5", "a", (-0.5,), False),
        ("a=0x20", "a", (32,), False),
        ("a=2001-01-01", "a", ("2001-01-01",), False),
        ("a=b=c", "a", ("b=c",), False),
        ("a={b: 1, c: x}", "a", ({"b": 1, "c": "x"},), False),
        ("a.b:=3", "a.b", (3,), False),
        ("a=16,32", "a", (16, 32), True),
        ("a=1e-4, 1e-3", "a", (1e-4, 1e-3), True),
        ("a=[64],[64,256]", "a", ([64], [64, 256]), True),
        ("a=0..3", "a", (0, 1, 2, 3), True),
        ("a=-1..1", "a", (-1, 0, 1), True),
        ("a=5..5", "a", (5,), True),
        ("a=0..2,7", "a", (0, 1, 2, 7), True),
    ],
)
def test_grammar(argument, key, values, is_axis):
    override = parse_override(argument)
    assert (override.key, override.values, override.is_axis) == (key, values, is_axis)
    assert [type(v) for v in override.values] == [type(v) for v in values]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("seed", "expected key=value"),
        ("=3", "expected key=value"),
        ("a..b=3", "expected key=value"),
        ("seed=", "a grid with no cell"),
        ("seed=5..4", "a grid with no cell"),
        ("seed=1,,2", "an empty item"),
        ("seed=1,", "an empty item"),
        ("a=[1,2", "unclosed quote or bracket"),
        ("a=1]", "unclosed quote or bracket"),
        ("a='x", "unclosed quote or bracket"),
        ("a=*z", "cannot be read as YAML"),
        ("a=${b}", "cannot be read as YAML"),
        ("a=!!python/object/apply:os.getcwd []", "cannot be read as YAML"),
        ("a=${oc.env:HOME}", r"no interpolations"),
        ("a={b: ['${oc.env:HOME}']}", r"no interpolations"),
        ("seed=1:30", "a number to the base 60"),
        ("seed=[2,1:30:00]", "a number to the base 60"),
        ("seed=1:30.5", "a number to the base 60"),
        ("seed=010", "an octal number; leave out the leading 0"),
        ("seed=-010", "leave out the leading 0"),
        ("seed=1,09", "leave out the leading 0"),
        ("a={b: 00}", "leave out the leading 0"),
        (f"seed={10**400}", "an integer of over 300 digits"),
        (f"a=[{-(10**400)}]", "an integer of over 300 digits"),
        (f"seed={'9' * 5000}", "cannot be read as YAML"),
        ("a=\udcff", "holds bytes that are not valid UTF-8"),
        (f"seed=0..{MAX_CELLS}", f"{MAX_CELLS + 1} values"),
    ],
)
def test_bad_arguments(argument, message):
    with pytest.raises(InputError, match=message.replace("*", r"\*")) as caught:
        parse_override(argument)
    assert "\n" not in str(caught.value)


def test_scale_is_no_override():
    overrides, scale = parse_overrides(["seed=3", "scale=full"])
    assert [o.key for o in overrides] == ["seed"]
    assert scale == "full"
    with pytest.raises(InputError, match="names no scale"):
        parse_overrides(["scale=full,laptop"])
    with pytest.raises(InputError, match="given twice"):
        parse_overrides(["seed=3", "--seed=4"])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=4))
def test_every_float_is_read_back(numbers):
    values = parse_override("a=" + ",".join(map(repr, numbers))).values
    assert values == tuple(numbers)
    assert all(isinstance(v, float) for v in values)


@given(st.lists(st.integers(), min_size=1, max_size=5))
def test_every_list_is_one_value(numbers):
    assert parse_override(f"a={numbers}").values == (numbers,)
