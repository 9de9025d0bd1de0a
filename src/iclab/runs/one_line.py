"""Texts that come from anywhere, made safe for a line of the terminal."""

from __future__ import annotations

LONGEST = 300


def one_line(text: str, longest: int = LONGEST) -> str:
    """``text`` on one line of at most ``longest`` characters; what cannot be printed is shown as its escape.

    A longer text keeps both ends: what was found stands at the beginning, what to do at the end.
    """
    if len(text) > 16 * longest:
        text = f"{text[: 8 * longest]}{text[-8 * longest :]}"
    line = " ".join(text.split())
    line = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in line)
    if len(line) <= longest:
        return line
    tail = longest // 3
    return f"{line[: longest - tail - 5]} ... {line[len(line) - tail :]}"
