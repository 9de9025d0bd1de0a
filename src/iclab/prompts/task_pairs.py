"""The tasks of two-class prompts: ordered pairs of patterns, the first with label +1 and the second with -1."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from iclab.errors import InputError
from iclab.prompts.arguments import described, entries, integer
from iclab.prompts.stream import Stream

TaskChoice = str | int | Iterable[Iterable[int]]


def task_pairs(choice: TaskChoice, patterns: int, stream: Stream) -> list[tuple[int, int]]:
    """Return ordered pairs ``(a, b)`` of different patterns in ``0 .. patterns - 1``, sorted.

    Args:
        choice: ``"all"`` for every pair; ``"cycle"`` for ``(0, 1), (1, 2), ..., (patterns - 1, 0)``, the smallest set
            with each pattern once on either side; an integer for a random set of so many pairs with each pattern
            equally often on either side; or the pairs themselves, in any number and order, balanced or not.
        patterns: their number, at least 2.
        stream: of the random set.

    Raises:
        InputError: for a number that is no multiple of ``patterns`` or above ``patterns (patterns - 1)``, and for pairs
            that repeat, name one pattern twice or one that does not exist.
    """
    if isinstance(choice, str):
        if choice not in ("all", "cycle"):
            raise InputError(f"tasks is {choice!r}; expected 'all', 'cycle', a number of tasks or a list of pairs")
        return _shifted(list(range(patterns)), range(1, patterns) if choice == "all" else [1])
    pairs = entries(choice, ordered=False)
    if pairs is None:
        most = patterns * (patterns - 1)
        count = integer("the number of tasks", choice, 1)
        if count % patterns or count > most:
            raise InputError(
                f"tasks is {count} for {patterns} patterns; expected a multiple of {patterns} up to {most}, "
                "so that each pattern is equally often +1 and -1"
            )
        generator = stream.at(0)
        order = torch.randperm(patterns, generator=generator).tolist()
        shifts = (1 + torch.randperm(patterns - 1, generator=generator)[: count // patterns]).tolist()
        return _shifted(order, shifts)
    return _checked(pairs, patterns)


def _shifted(order: list[int], shifts: Iterable[int]) -> list[tuple[int, int]]:
    """Each pattern with the one that stands ``shift`` positions after it in ``order``, round and round."""
    size = len(order)
    return sorted((order[i], order[(i + shift) % size]) for shift in shifts for i in range(size))


def _checked(choice: list[object], patterns: int) -> list[tuple[int, int]]:
    pairs = []
    for pair in choice:
        found = entries(pair)
        if found is None or len(found) != 2:
            raise InputError(f"a task is {described(pair)}; expected a pair of patterns such as (0, 1)")
        plus, minus = (integer("a pattern of tasks", entry, 0, patterns - 1) for entry in found)
        if plus == minus:
            raise InputError(f"a task is ({plus}, {minus}); expected two different patterns")
        pairs.append((plus, minus))
    if not pairs or len(set(pairs)) != len(pairs):
        raise InputError(f"tasks are {described(pairs)}; expected at least one pair, and none twice")
    return sorted(pairs)
