"""Figures, tables and the one-file HTML page of a run."""

from iclab.report.backend import import_matplotlib

import_matplotlib()

# Everything below imports matplotlib.
from iclab.report.build import build_report, render_report  # noqa: E402

__all__ = ["build_report", "render_report"]
