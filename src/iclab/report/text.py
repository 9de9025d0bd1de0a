"""Text that comes from a configuration or from data, made safe to show: labels, numbers, file names."""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Collection, Iterable
from numbers import Integral, Real
from typing import Any

# Direction overrides would let a label change how the text after it reads.
_DIRECTION_MARKS = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_RESERVED_FILE_NAMES = {"con", "prn", "aux", "nul"} | {f"{p}{i}" for p in ("com", "lpt") for i in range(1, 10)}


def plain(text: object) -> str:
    """``text`` on one line: control characters, lone surrogates and direction marks become spaces."""
    kept = (
        " " if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} or c in _DIRECTION_MARKS else c for c in str(text)
    )
    return " ".join("".join(kept).split())


def wrapped(text: object, width: int, lines: int | None = None) -> str:
    """``text`` broken into lines of at most ``width`` characters; an ellipsis ends what does not fit ``lines``."""
    return "\n".join(textwrap.wrap(plain(text), width, max_lines=lines, placeholder="…"))


def short_number(value: float) -> str:
    """The shorter of the plain and the ``1e6`` form: ``64``, ``1024``, ``0.001``, ``1e6``, ``2.5e-7``."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    decimal = f"{value:.10g}"
    if len(decimal.lstrip("-")) > 6 or "e" in decimal:
        mantissa, _, exponent = f"{value:.6e}".partition("e")
        scientific = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
        decimal = scientific if len(scientific) < len(decimal) else decimal
    return f"−{decimal[1:]}" if decimal.startswith("-") else decimal


def cell_text(value: Any) -> str:
    """A table cell: integers in full, other numbers to four significant digits, a dash for what is missing."""
    if value is None:
        return "–"
    if is_number(value):
        if isinstance(value, Integral):
            return str(int(value)).replace("-", "−")
        number = float(value)
        if not math.isfinite(number):
            return short_number(number)
        rounded = float(f"{number:.4g}")
        if 1e-4 <= abs(rounded) < 1e6:
            decimals = max(0, 3 - math.floor(math.log10(abs(rounded))))
            return f"{rounded:.{decimals}f}".replace("-", "−")
        return short_number(rounded)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plain(value)


def is_number(value: object) -> bool:
    """Whether a cell is a number; NumPy's scalars count, truth values do not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def span(counts: Iterable[int]) -> str:
    """``3``, ``2 to 5``, or ``none``."""
    values = sorted(set(counts))
    if not values:
        return "none"
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 0.05:
        return "under 0.1 s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def file_name(text: str, taken: Collection[str] = ()) -> str:
    """A file name without ending that every system accepts: ASCII letters, digits, ``.``, ``_`` and ``-``.

    ``taken`` holds the lower-case names in use already; a name among them gets ``-2``, ``-3``, ...
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", plain(text))[:80].strip("-.") or "figure"
    if name.lower().split(".")[0] in _RESERVED_FILE_NAMES:
        name = f"figure-{name}"
    candidate, count = name, 1
    while candidate.lower() in taken:
        count += 1
        candidate = f"{name}-{count}"
    return candidate
