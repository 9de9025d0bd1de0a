"""Colours, for the light files in ``figures/`` and, as CSS variables, for the page in both schemes.

The eight series colours are ordered so that the first four are the most distinct. Each has a contrast of at least 3:1
with the paper, and any two stay apart under simulated protanopia, deuteranopia and tritanopia (a test measures it).
"""

from __future__ import annotations

SERIES_LIGHT = ("#2470b3", "#ee3b0a", "#149a78", "#8a3f63", "#70850f", "#7a72e6", "#7d1e0e", "#27449c")
SERIES_DARK = ("#4fb2ff", "#ee7420", "#12e3b5", "#c05c9c", "#ecc04c", "#cdf6ff", "#c2401a", "#7263ee")

PAPER, INK, MUTED, GRID, AXIS = "#ffffff", "#1a1e23", "#59636f", "#e4e8ec", "#a9b2bc"
_DARK = {"paper": "#14171b", "ink": "#e8ebee", "muted": "#a3adb8", "grid": "#2a3037", "axis": "#5a646f"}

LIGHT_VARIABLES: dict[str, str] = {
    "paper": PAPER,
    "ink": INK,
    "muted": MUTED,
    "grid": GRID,
    "axis": AXIS,
    **{f"s{i}": colour for i, colour in enumerate(SERIES_LIGHT)},
}
DARK_VARIABLES: dict[str, str] = {**_DARK, **{f"s{i}": colour for i, colour in enumerate(SERIES_DARK)}}

# A light colour stands for its variable in drawn SVG, so each must occur once.
VARIABLE_OF_COLOUR: dict[str, str] = {colour: name for name, colour in LIGHT_VARIABLES.items()}
