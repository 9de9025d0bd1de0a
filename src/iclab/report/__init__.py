"""Figures, tables and the one-file HTML page of a run."""

from iclab.report.build import build_report, render_report

__all__ = ["build_report", "render_report"]
