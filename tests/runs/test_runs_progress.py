"""Progress: the line, the time that is left, and where it is shown; the contents of the lock."""

from __future__ import annotations

import io
import time

import pytest

from iclab.errors import InputError
from iclab.execution import Execution
from iclab.lock import locked
from iclab.runs import progress
from iclab.runs.executors import load_executor
from iclab.runs.progress import Advance, format_seconds, show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_time_left_follows_the_pace(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    advance = Advance(done=2, total=20, work=60.0, parallel=2)
    # Before the first cell is finished, the forecast says: 60 core-seconds on two cores.
    assert advance.line() == "2/20 cells, 0 s so far, about 30 s left"
    now[0] += 20
    assert advance.left == pytest.approx(10)
    now[0] += 20
    assert advance.line() == "2/20 cells, 40 s so far"
    advance.add(12.0)
    # 12 of 60 units took 40 s, so 48 take 160 s.
    assert advance.left == pytest.approx(160)
    assert advance.line() == "3/20 cells, 40 s so far, about 3 min left"
    # While nothing is finished the time left falls by what passes, and never rises.
    now[0] += 100
    assert advance.left == pytest.approx(60)
    now[0] += 100
    assert advance.left is None
    assert advance.line() == "3/20 cells, 4 min so far"
    # 24 units took 240 s, so 36 take 360 s.
    advance.add(12.0)
    assert advance.left == pytest.approx(360)


def test_without_a_forecast_nothing_is_said_before_the_first_cell(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    advance = Advance(done=0, total=4, work=4.0, known=False)
    assert advance.left is None
    now[0] += 5
    advance.add(1.0)
    assert advance.left == pytest.approx(15)


def test_the_forecast_counts_cores_and_not_workers(monkeypatch):
    monkeypatch.setattr("iclab.runs.executors.local.available_cores", lambda: 8)
    local = load_executor("local")
    cases = {(1, 4): 4, (1, 20): 8, (2, 8): 4, (4, 8): 2, (16, 3): 1}
    assert {case: local.parallel(case[1], Execution(threads=case[0])) for case in cases} == cases


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


def test_a_terminal_that_cannot_draw_gets_lines(monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 0.02)
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    with show_progress(Advance(done=1, total=4, work=4.0), terminal):
        time.sleep(0.3)
    assert len(terminal.getvalue().splitlines()) > 3
    assert all(line.startswith("1/4 cells, ") for line in terminal.getvalue().splitlines())


def test_a_bar_without_colours_shows_how_far_it_is(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    with show_progress(Advance(done=1, total=4, work=4.0), terminal):
        time.sleep(0.3)
    assert "[" + 10 * "#" + 30 * "." + "]" in terminal.getvalue()


def test_progress_outlives_its_terminal(monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 0.02)

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with show_progress(Advance(done=0, total=4, work=4.0), Gone()):
        time.sleep(0.1)
    monkeypatch.setattr("sys.stderr", None)
    with show_progress(Advance(done=0, total=4, work=4.0)):
        time.sleep(0.1)


def test_a_lock_whose_holder_is_not_known(tmp_path):
    with locked(tmp_path):
        (tmp_path / "lock").write_text("?")
        with pytest.raises(InputError, match=r"another process \(its pid is not known\)"), locked(tmp_path):
            pass
    with locked(tmp_path):
        assert '"pid"' in (tmp_path / "lock").read_text()
