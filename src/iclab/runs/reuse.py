"""Cells that another run has finished: the same configuration by the same code need not be computed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from iclab.runs.execution_settings import Place
from iclab.runs.folder import RunFolder
from iclab.runs.storage import code_of, copy_cell, is_finished, read_cell


def check_others(others: Sequence[Path]) -> list[RunFolder]:
    """The folders of other runs.

    Raises:
        InputError: if one of them is no run folder.
    """
    folders = [RunFolder(path) for path in others]
    for folder in folders:
        folder.read_config()
    return folders


def take_finished(run: RunFolder, codes: Mapping[str, str], others: Sequence[Path], place: Place) -> int:
    """Copy what ``others`` have of the cells of ``codes``, by their ids, into ``run``; how many were taken.

    Taken is only what that code and the place of this run would have computed: other threads or another device may
    differ in last digits.

    Raises:
        InputError: if one of the others is no run folder, or a cell in it was changed since it was written.
    """
    folders = check_others(others)
    taken = 0
    for cell, code in codes.items():
        for folder in folders:
            source = folder.cell(cell)
            if is_finished(source) and _same(read_cell(source).record, code, place):
                copy_cell(source, run.cell(cell))
                taken += 1
                break
    return taken


def _same(record: dict, code: str, place: Place) -> bool:
    return (code_of(record), record.get("threads"), record.get("device", "cpu")) == (code, place.threads, place.device)
