"""Progress: the line, the time that is left, and where it is shown; the contents of the lock."""

from __future__ import annotations

import io
import time

import pytest

from iclab.errors import InputError
from iclab.runs import progress
from iclab.runs.lock import locked
from iclab.runs.progress import Advance, format_seconds, show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_time_left_follows_the_pace(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    advance = Advance(done=2, total=20, work=60.0)
    assert advance.left is None
    assert advance.line() == "2/20 cells, 0 s so far"
    now[0] += 40
    advance.add(12.0)
    # 12 of 60 units took 40 s, so 48 take 160 s.
    assert advance.left == pytest.approx(160)
    assert advance.line() == "3/20 cells, 40 s so far, about 3 min left"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3500, "58 min"), (7500, "2 h 5 min")]
)
def test_durations(seconds, text):
    assert format_seconds(seconds) == text


def test_plain_lines_and_a_bar(monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 0.02)
    advance = Advance(done=0, total=4, work=4.0)
    advance.add(1.0)
    plain, terminal, silent = io.StringIO(), Terminal(), io.StringIO()
    with show_progress(advance, plain), show_progress(advance, terminal), show_progress(advance, silent, quiet=True):
        time.sleep(0.6)
    lines = plain.getvalue().splitlines()
    assert len(lines) > 3
    assert all(line.startswith("1/4 cells, ") for line in lines)
    assert "1/4" in terminal.getvalue()
    assert silent.getvalue() == ""


def test_a_lock_whose_holder_is_not_known(tmp_path):
    with locked(tmp_path):
        (tmp_path / "lock").write_text("?")
        with pytest.raises(InputError, match=r"another process \(its pid is not known\)"), locked(tmp_path):
            pass
    with locked(tmp_path):
        assert '"pid"' in (tmp_path / "lock").read_text()
