"""Labels, numbers, file names, CSV and ticks."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iclab.report.csv_data import data_link, figure_csv, table_csv
from iclab.report.text import cell_text, duration, file_name, plain, short_number, wrapped
from iclab.report.ticks import plan_axis
from iclab.results.page import Figure, Panel, Series, Table

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (64, "64"),
        (1024.0, "1024"),
        (100000, "100000"),
        (1e6, "1e6"),
        (2.5e7, "2.5e7"),
        (0.001, "0.001"),
        (0.1 + 0.2, "0.3"),
        (1e-5, "1e-5"),
        (-0.5, "−0.5"),
        (-1e-7, "−1e-7"),
        (1234567.0, "1234567"),
        (NAN, "–"),
        (-INF, "−∞"),
    ],
)
def test_short_number(value: float, text: str) -> None:
    assert short_number(value) == text


@given(st.floats(min_value=-1e12, max_value=1e12))
def test_short_number_reads_back(value: float) -> None:
    assert float(short_number(value).replace("−", "-")) == pytest.approx(value, rel=1e-6, abs=1e-300)


def test_cells_have_four_significant_digits() -> None:
    cells = [0.5987654, 123.456, 12345678, 1234.5678, -0.3, 0, 0.0, 9.99999, 1e-9, None, NAN, True, "a\nb"]
    expected = ["0.5988", "123.5", "12345678", "1235", "−0.3000", "0", "0", "10.00", "1e-9", "–", "–", "yes", "a b"]
    assert [cell_text(c) for c in cells] == expected
    assert cell_text(np.int64(7)) == "7"
    assert cell_text(np.float32(0.25)) == "0.2500"


def test_duration() -> None:
    assert [duration(s) for s in (0.44, 12, 59.7, 200, 7500)] == ["0.4 s", "12 s", "60 s", "3 min 20 s", "2 h 5 min"]


def test_plain_removes_what_could_break_or_deceive() -> None:
    assert plain("a\x00b\n\tc\u202ed\ud800 β₂") == "a b c d β₂"
    assert wrapped("one two three", 8) == "one two\nthree"
    assert wrapped("one two three", 8, 1) == "one two…"


@given(st.text(max_size=300))
def test_file_names_are_safe_on_every_system(text: str) -> None:
    name = file_name(text)
    assert 1 <= len(name) <= 90
    assert not set(name) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
    assert not name.startswith((".", "-"))
    assert file_name(text, {name.lower()}).lower() != name.lower()


def test_file_names() -> None:
    assert file_name("../../etc/passwd") == "etc-passwd"
    assert file_name("<script>") == "script"
    assert file_name("NUL") == "figure-NUL"
    assert file_name("") == "figure"
    assert file_name("Error", {"error", "error-2"}) == "Error-3"


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_csv_holds_the_series_exactly() -> None:
    y = [1 / 3, NAN, -INF, 1e-320]
    series = Series("Mamba", [64, 128, 256, 0.1], y, [0.1] * 4, [0.7] * 4, [[1.0] * 4, [2.5] * 4], band="95 %")
    other = Series("ridge", [1], [-2], role="baseline")
    rows = rows_of(figure_csv(Figure("f", "", [Panel("p", "N", "error", [series, other])])))
    bounded = Series("Mamba", [2, 4], [32, 40], relations=["<=", "="])
    first, *points = rows_of(figure_csv(Figure("f", "", [Panel("p", "r", "N", [bounded])])))
    assert first[-1] == "bound"
    assert [row[-1] for row in points] == ["<=", ""]
    assert rows[0][:7] == ["panel", "x axis", "y axis", "series", "role", "x", "y"]
    assert rows[1] == ["p", "N", "error", "Mamba", "model", "64", repr(1 / 3), "0.1", "0.7", "95 %", "1.0", "2.5"]
    assert [row[6] for row in rows[1:]] == [repr(1 / 3), "", "-inf", "1e-320", "-2"]
    assert [float(row[5]) for row in rows[1:5]] == [64, 128, 256, 0.1]
    assert rows[5] == ["p", "N", "error", "ridge", "baseline", "1", "-2", "", "", "", "", ""]


def test_csv_cells_are_never_formulas_and_numbers_stay_numbers() -> None:
    texts = ["=1+1", "+1", "-x", "@SUM(A1)", "\t=1", 'say "hi", you', "two\nlines", "safe", "＝1"]
    numbers: list[float | int | None] = [-1, -0.5, None, NAN, 2, 3, 4, 5, -6]
    rows = rows_of(table_csv(Table("t", "", texts, [texts, numbers])))
    expected = ["'=1+1", "'+1", "'-x", "'@SUM(A1)", "'\t=1", 'say "hi", you', "two\nlines", "safe", "'＝1"]
    assert rows[0] == rows[1] == expected
    assert rows[2] == ["-1", "-0.5", "", "", "2", "3", "4", "5", "-6"]


def test_a_data_link_decodes_to_the_file() -> None:
    link = data_link("β,1\n")
    head, _, body = link.partition(",")
    assert head == "data:text/csv;charset=utf-8;base64"
    assert base64.b64decode(body).decode() == "β,1\n"


def labels(scale: str, values: list[float], **options: object) -> tuple[str, ...]:
    return plan_axis(scale, np.array(values, dtype=float), **options).labels  # type: ignore[arg-type]


def powers(base: int, exponents: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"$\\mathdefault{{{base}^{{{e}}}}}$" for e in exponents)


def test_ticks_are_plain_numbers_at_the_data() -> None:
    assert labels("log2", [64, 256, 1024]) == ("64", "256", "1024")
    assert labels("log2", [2.0**k for k in range(4, 12)], most=7) == tuple(str(2**k) for k in range(4, 12))
    assert labels("log2", [100, 300, 700]) == ("128", "256", "512")
    assert labels("log2", [64]) == ("64",)
    assert labels("log", [1e-4, 1.0]) == ("0.0001", "0.001", "0.01", "0.1", "1")
    assert labels("log", [0.11, 0.6]) == ("0.2", "0.5")
    assert labels("linear", [0.0, 1.0]) == ("0.00", "0.25", "0.50", "0.75", "1.00")
    assert labels("linear", [-0.3, 0.3]) == ("−0.2", "0.0", "0.2")
    assert labels("symlog", [0, 0.02, 0.06, 0.2, 0.6]) == ("0", "0.02", "0.05", "0.1", "0.2", "0.5")
    assert labels("symlog", [-1000, 0, 0.1, 200]) == ("−1000", "−10", "−0.1", "0", "0.1", "10")


def test_an_axis_of_whole_numbers_has_whole_ticks() -> None:
    assert labels("linear", [1, 2, 3]) == ("1", "2", "3")
    assert labels("linear", [0.0, 0.0, 1.0]) == ("0.00", "0.25", "0.50", "0.75", "1.00")


def test_where_one_number_is_long_all_ticks_of_an_axis_are_powers() -> None:
    assert labels("log2", [2.0**k for k in range(10, 21)], most=7) == powers(2, range(10, 21, 2))
    assert labels("log", [1e3, 1e8]) == powers(10, range(3, 9))
    assert labels("log", [1e-8, 1.0]) == powers(10, range(-8, 1, 2))
    zero, *others = labels("linear", [0.0, 3e6])
    assert zero == "$\\mathdefault{0}$"
    assert others == [powers(10, [6])[0], *(f"$\\mathdefault{{{m}\\times10^{{6}}}}$" for m in (2, 3))]


@given(
    st.sampled_from(["linear", "log", "log2", "symlog"]),
    st.lists(st.floats(min_value=-1e200, max_value=1e200), max_size=8),
)
@example("symlog", [5e-324])
@example("symlog", [0.0, -5e-324, 1.0])
@example("linear", [5e-324, 0.0])
@example("linear", [1e-201, 2e-201])
@example("linear", [2e-11])
def test_every_axis_has_an_order_few_ticks_and_all_values(scale: str, values: list[float]) -> None:
    if scale in ("log", "log2"):
        values = [abs(v) for v in values if abs(v) > 1e-200]
    plan = plan_axis(scale, np.array(values, dtype=float), most=6)  # type: ignore[arg-type]
    assert math.isfinite(plan.low)
    assert math.isfinite(plan.high)
    assert plan.low < plan.high
    assert all(plan.low <= v <= plan.high for v in values)
    assert len(plan.ticks) == len(plan.labels) <= 7
    assert list(plan.ticks) == sorted(set(plan.ticks))
    assert all(plan.low <= t <= plan.high for t in plan.ticks)
    assert len({label.startswith("$") for label in plan.labels}) <= 1
