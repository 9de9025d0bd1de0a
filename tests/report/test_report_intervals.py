"""What intervals mean, in words; and that the report draws whatever matplotlib's backend is."""

from __future__ import annotations

import os
import subprocess
import sys

import pandas as pd
import pytest

from iclab.report.intervals import intervals_in_words

NAN = float("nan")


def summary(*rows: tuple[str, float, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["interval", "level", "num_seeds", "num_prompts"])


def test_each_kind_is_told_once_with_its_level_and_seeds() -> None:
    rows = [
        ("exact", NAN, 5, 0), ("range", NAN, 2, 128), ("range", NAN, 4, 128), ("bootstrap", 0.95, 5, 128),
        ("bootstrap", 0.95, 5, 64), ("prompts", 0.9, 1, 128), ("none", NAN, 1, 1),
    ]  # fmt: skip
    bootstrap, span, prompts, none, exact = intervals_in_words(summary(*rows))
    assert bootstrap.startswith("Bootstrap (5 seeds): the 95 % interval")
    assert "first the seeds, then the prompts of each" in bootstrap
    assert span.startswith("Range (2 to 4 seeds): the smallest and the largest seed, as there are fewer than 5")
    assert prompts.startswith("Prompts (1 seed): the 90 % interval")
    assert none.startswith("None (1 seed)")
    assert exact.startswith("Exact")


def test_single_numbers_a_seed_have_no_prompts_to_resample() -> None:
    (sentence,) = intervals_in_words(summary(("bootstrap", 0.95, 6, 1)))
    assert "prompts" not in sentence
    assert "by resampling the seeds" in sentence


def test_unknown_kinds_and_absent_columns() -> None:
    assert intervals_in_words(summary(("credible", 0.5, 3, 1))) == ("credible (3 seeds).",)
    assert intervals_in_words(pd.DataFrame({"num_seeds": [1]})) == ()
    assert intervals_in_words(summary()) == ()


@pytest.mark.parametrize(
    ("wanted", "in_force"),
    [("module://absent.backend", "module://absent.backend"), ("nonsense", "agg"), ("TkAgg", "tkagg"), ("svg", "svg")],
)
def test_matplotlib_is_imported_whatever_the_environment_names(wanted: str, in_force: str) -> None:
    code = (
        "import iclab.report, matplotlib, os, sys; from iclab.results.page import Figure, Panel, Series;"
        "from iclab.report.drawing import draw_figure; from iclab.report.styles import assign_styles;"
        "figure = Figure('f', '', [Panel('', '', '', [Series('a', [1, 2], [1, 2])])]);"
        "assert draw_figure(figure, assign_styles([figure])).png;"
        "assert 'matplotlib.pyplot' not in sys.modules;"
        "print(matplotlib.get_backend().lower(), os.environ['MPLBACKEND'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MPLBACKEND": wanted},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [in_force, wanted], done.stderr
