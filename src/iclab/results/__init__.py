"""What the numbers of a run are: tables, grid points, contrasts, wording; figures and tables as plain data."""

from typing import TYPE_CHECKING

from iclab.lazy import lazy

if TYPE_CHECKING:
    from iclab.results.page import Figure, Panel, Report, Series, Table
    from iclab.results.results import Difference, Results
    from iclab.results.wording import basis, quantity, series

__all__ = [
    "Difference",
    "Figure",
    "Panel",
    "Report",
    "Results",
    "Series",
    "Table",
    "basis",
    "quantity",
    "series",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "page": ("Figure", "Panel", "Report", "Series", "Table"),
        "results": ("Difference", "Results"),
        "wording": ("basis", "quantity", "series"),
    },
)
