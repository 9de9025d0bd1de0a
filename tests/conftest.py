"""Fixtures for all tests."""

from __future__ import annotations

import pytest

_EMPTY = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'


@pytest.fixture
def no_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are composed and the page is written, but no figure is laid out and rendered: that takes most of the
    time of a tiny run. Not for tests of what the report draws."""
    monkeypatch.setattr("iclab.report.drawing._svg", lambda canvas, title: _EMPTY)
    monkeypatch.setattr("iclab.report.drawing._png", lambda canvas: b"")
