"""Texts that come from anywhere, made safe for a line of the terminal."""

from __future__ import annotations

LONGEST = 300


def one_line(text: str, longest: int = LONGEST) -> str:
    """``text`` on one line of at most ``longest`` characters; what cannot be printed is shown as its escape."""
    line = " ".join(text[: 8 * longest].split())
    line = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in line)
    return line if len(line) <= longest and len(text) <= 8 * longest else f"{line[: longest - 3]}..."
