"""What the intervals of a report mean, in words, from the ``interval`` and ``level`` columns of its results."""

from __future__ import annotations

import pandas as pd

from iclab.report.text import span

_COLUMNS = {"interval", "level", "num_seeds", "num_prompts"}
_ORDER = ("bootstrap", "range", "prompts", "none", "exact")


def intervals_in_words(summary: pd.DataFrame) -> tuple[str, ...]:
    """Sentences on every kind of interval that ``summary`` holds, the most telling kind first; none without columns.

    Args:
        summary: one row a number, with ``interval``, ``level``, ``num_seeds`` and ``num_prompts``.
    """
    if not set(summary.columns) >= _COLUMNS:
        return ()
    found = [str(kind) for kind in summary["interval"].dropna().unique()]
    kinds = [*(kind for kind in _ORDER if kind in found), *(kind for kind in found if kind not in _ORDER)]
    return tuple(_sentence(kind, summary[summary["interval"] == kind]) for kind in kinds)


def _sentence(kind: str, rows: pd.DataFrame) -> str:
    counts, level = span(int(v) for v in rows["num_seeds"].dropna()), _levels(rows["level"])
    seeds = f"{counts} seed{'' if counts == '1' else 's'}"
    several = bool((rows["num_prompts"] > 1).any())
    match kind:
        case "bootstrap":
            how = "first the seeds, then the prompts of each," if several else "the seeds"
            return f"Bootstrap ({seeds}): the {level} interval of the mean over seeds, by resampling {how} at random."
        case "range":
            return f"Range ({seeds}): the smallest and the largest seed, as there are fewer than 5; it has no level."
        case "prompts":
            return (
                f"Prompts ({seeds}): the {level} interval by resampling the prompts of the only seed; it says nothing "
                "about other seeds."
            )
        case "none":
            return f"None ({seeds}): one number of one seed, or samples that are not all finite, have no interval."
        case "exact":
            return "Exact: computed without sampling, so there is no interval."
        case _:
            return f"{kind} ({seeds})."


def _levels(levels: pd.Series) -> str:
    shown = [f"{100 * level:.3g} %" for level in sorted(levels.dropna().unique())]
    return " or ".join(shown) or "unstated"
