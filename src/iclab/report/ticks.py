"""Limits and ticks of an axis: few enough ticks to read on a phone, all labels of an axis in one form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FixedLocator,
    LogFormatterMathtext,
    LogFormatterSciNotation,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

from iclab.results.page import Scale

LOGARITHMIC = ("log", "log2")
_PADDING = 0.045
# What is smaller counts as zero: arithmetic with it would underflow.
_SMALLEST = 1e-200
# Of a label in decimals; where one is longer, all are powers.
_LONGEST = 6


@dataclass(frozen=True)
class AxisPlan:
    """Everything that is set on one axis. ``threshold`` is where a symlog axis turns linear."""

    scale: Scale
    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    minor: tuple[float, ...] = ()
    threshold: float = 1.0


def plan_axis(
    scale: Scale, values: np.ndarray, *, limits: tuple[float, float] | None = None, most: int = 6
) -> AxisPlan:
    """Plan an axis for finite ``values`` (positive where the scale is logarithmic), with at most ``most`` ticks.

    Args:
        scale: a `Scale`.
        values: everything that must be visible; may be empty.
        limits: fixed ends instead of those of the values.
        most: the largest number of labelled ticks.
    """
    if scale in LOGARITHMIC:
        return _plan_log(scale, values, limits, most)
    if scale == "symlog":
        return _plan_symlog(values, limits, most)
    low, high = limits or _padded(values)
    # Half a degree or half a layer is no value of an axis of whole numbers.
    whole = high - low > 2 and bool((values == np.round(values)).all())
    ticks = _linear_ticks(low, high, most, whole=whole and limits is None)
    return AxisPlan("linear", low, high, ticks, tick_labels(ticks, align=True))


def apply_plan(axes: Axes, which: str, plan: AxisPlan) -> None:
    """Set scale, limits and ticks on the ``x`` or ``y`` axis."""
    options: dict[str, float] = {}
    if plan.scale in LOGARITHMIC:
        options = {"base": 2 if plan.scale == "log2" else 10}
    elif plan.scale == "symlog":
        options = {"linthresh": plan.threshold, "linscale": 0.6}
    name = "log" if plan.scale in LOGARITHMIC else plan.scale
    axis = axes.xaxis if which == "x" else axes.yaxis
    if which == "x":
        axes.set_xscale(name, **options)
        axes.set_xlim(plan.low, plan.high)
    else:
        axes.set_yscale(name, **options)
        axes.set_ylim(plan.low, plan.high)
    axis.set_ticks(plan.ticks, labels=list(plan.labels))
    axis.set_minor_locator(FixedLocator(plan.minor))
    axis.set_minor_formatter(NullFormatter())


def tick_labels(ticks: Sequence[float], base: int = 10, *, align: bool = False) -> tuple[str, ...]:
    """Labels of one form, as mathtext: all in decimals where these are short, else all as powers of ``base``.

    Args:
        ticks: of one axis.
        base: 2 for an axis of powers of two, else 10.
        align: give decimals equal numbers of digits.
    """
    plain = [f"{tick:.10g}" for tick in ticks]
    if all(len(label.lstrip("-")) <= _LONGEST and "e" not in label for label in plain):
        digits = max((len(label.partition(".")[2]) for label in plain), default=0)
        if align:
            plain = [f"{tick:.{digits}f}" for tick in ticks]
        return tuple(label.replace("-", "−") for label in plain)
    powers = LogFormatterMathtext(2) if base == 2 else LogFormatterSciNotation(minor_thresholds=(math.inf, math.inf))
    return tuple(powers(tick) for tick in ticks)


def _padded(values: np.ndarray) -> tuple[float, float]:
    if values.size == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    # Equal values, or a spread at the edge of the floating-point resolution, get a window of their own size.
    if high - low <= max(1e-12 * max(abs(low), abs(high)), _SMALLEST):
        half = 0.1 * abs(low) if abs(low) > _SMALLEST else 0.5
        return low - half, high + half
    return low - _PADDING * (high - low), high + _PADDING * (high - low)


def _linear_ticks(low: float, high: float, most: int, *, whole: bool = False) -> tuple[float, ...]:
    ticks = MaxNLocator(nbins=most - 1, steps=[1, 2, 2.5, 5, 10], integer=whole).tick_values(low, high)
    # Rounding at the twelfth digit of the span turns 0.30000000000000004 and -1e-17 into 0.3 and 0.
    digits = 12 - math.floor(math.log10(high - low))
    inside = (float(t) for t in ticks if low <= t <= high)
    # At an end of the axis rounding may lead outside.
    return tuple(min(max(round(t, digits) + 0.0, low), high) for t in inside)


def _plan_log(scale: Scale, values: np.ndarray, limits: tuple[float, float] | None, most: int) -> AxisPlan:
    low, high = limits or _log_padded(values)
    if scale == "log2":
        exponents = _powers_of_two(values, low, high)
        if exponents:
            longest = max(len(f"{2.0**e:.10g}") for e in exponents)
            # Eight short labels fit where only six long ones do.
            ticks = tuple(2.0**e for e in _thinned(exponents, most if longest > 4 else most + 1))
            return AxisPlan(scale, low, high, ticks, tick_labels(ticks, 2))
    ticks, minor = _decades(low, high, most)
    return AxisPlan(scale, low, high, ticks, tick_labels(ticks), minor)


def _log_padded(values: np.ndarray) -> tuple[float, float]:
    if values.size == 0:
        return 0.1, 10.0
    low, high = math.log(float(values.min())), math.log(float(values.max()))
    if high - low < 1e-9:
        return math.exp(low) / 2, math.exp(high) * 2
    padding = _PADDING * (high - low)
    return math.exp(low - padding), math.exp(high + padding)


def _powers_of_two(values: np.ndarray, low: float, high: float) -> list[int]:
    """Exponents of the powers of two among the values, or where the values are others, of those in the range."""
    exponents = np.log2(np.unique(values[(values >= low) & (values <= high)]))
    present = sorted({round(e) for e in exponents.tolist() if abs(e - round(e)) < 1e-9})
    if len(present) < min(2, exponents.size) or exponents.size == 0:
        present = list(range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1))
        present = present if len(present) >= 2 else []
    return present


def _thinned(items: list[int], most: int) -> list[int]:
    """Every k-th item, counted back from the last, which is the one that readers look for."""
    return items[:: -math.ceil(len(items) / most)][::-1] if items else items


def _decades(low: float, high: float, most: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Labelled and unlabelled ticks of a base-10 axis."""
    for multiples in ((1.0,), (1.0, 2.0, 5.0)):
        ticks = _inside(LogLocator(subs=multiples, numticks=most).tick_values(low, high), low, high)
        if 2 <= len(ticks) <= most:
            unlabelled = LogLocator(subs=range(2, 10), numticks=most).tick_values(low, high)
            return ticks, _inside(unlabelled, low, high) if len(multiples) == 1 else ()
    return _linear_ticks(low, high, most), ()


def _inside(values: Iterable[float], low: float, high: float) -> tuple[float, ...]:
    return tuple(float(v) for v in values if low <= v <= high)


def _plan_symlog(values: np.ndarray, limits: tuple[float, float] | None, most: int) -> AxisPlan:
    sizes = np.abs(values)
    sizes = sizes[sizes > _SMALLEST]
    top = float(sizes.max()) if sizes.size else 1.0
    # Four decades on each side of zero are what a small panel can show.
    threshold = max(float(sizes.min()) if sizes.size else 1.0, top * 1e-4)
    if limits is None:
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        margin = 0.3 * threshold
        limits = (low - max(0.4 * abs(low), margin), high + max(0.4 * abs(high), margin))
    low, high = limits
    first, last = math.ceil(math.log10(threshold) - 1e-9), math.floor(math.log10(max(abs(low), abs(high))) + 1e-9)
    sizes_shown = [10.0**e for e in _thinned(list(range(first, last + 1)), 3)]
    if len(sizes_shown) < 2:  # less than two decades: 1, 2 and 5 of each
        top = max(abs(low), abs(high))
        finer = (m * 10.0**e for e in range(math.floor(math.log10(threshold)), last + 1) for m in (1, 2, 5))
        both = values.size > 0 and float(values.min()) < 0 < float(values.max())
        sizes_shown = list(_inside(finer, threshold * (1 - 1e-9), top))[-((most - 1) // (2 if both else 1)) :]
    ticks = _inside([-s for s in reversed(sizes_shown)] + [0.0] + sizes_shown, low, high)
    return AxisPlan("symlog", low, high, ticks, tick_labels(ticks), (), threshold)
