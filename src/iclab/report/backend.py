"""Imports matplotlib whatever ``MPLBACKEND`` says.

The report draws on canvases of its own, so no backend matters to it. Yet matplotlib refuses to be imported where the
variable names a backend that is not installed here: Jupyter sets it to its own for every process started from it.
"""

from __future__ import annotations

import os
import sys

_VARIABLE = "MPLBACKEND"


def import_matplotlib() -> None:
    """Import matplotlib; a backend in the environment that it knows is in force afterwards, as without this function.

    Nothing happens where matplotlib has been imported before: the backend is then the caller's business.
    """
    if "matplotlib" in sys.modules:
        return
    wanted = os.environ.pop(_VARIABLE, None)
    try:
        import matplotlib
    finally:
        if wanted is not None:
            os.environ[_VARIABLE] = wanted
    if wanted:
        try:
            matplotlib.rcParams["backend"] = wanted
        except ValueError:
            # Not installed here. Agg needs no display, should anybody go on to use pyplot.
            matplotlib.rcParams["backend"] = "agg"
