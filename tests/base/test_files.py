"""Atomic writes: what is there afterwards, and what is there after a failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iclab.files import is_temporary, naming, write_atomic


def test_bytes_and_text_replace_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert write_atomic(path, b"\x00old") == path
    write_atomic(path, "β = 1\n")
    assert path.read_bytes() == "β = 1\n".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_rename_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    write_atomic(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_synced_before_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b))[1])
    write_atomic(tmp_path / "a", b"x")
    assert calls[:2] == ["fsync", "replace"]


def test_a_name_of_the_longest_length_and_a_missing_folder(tmp_path: Path) -> None:
    write_atomic(tmp_path / ("n" * 255), b"x")
    with pytest.raises(FileNotFoundError) as caught:
        write_atomic(tmp_path / "none" / "a", b"x")
    # The user knows the file that was to be written, not the temporary one.
    assert caught.value.filename == str(tmp_path / "none" / "a")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as caught_too:
        write_atomic(tmp_path / "folder", b"x")
    assert (caught_too.value.filename, caught_too.value.filename2) == (str(tmp_path / "folder"), None)


def test_temporary_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(Path(a).name), replace(a, b)))
    write_atomic(tmp_path / "a", b"x")
    assert [is_temporary(name) for name in seen] == [True]
    for name in (".x.tmp", "0123456789abcdef.tmp", ".0123456789abcdeg.tmp", ".0123456789abcdef.tmp2"):
        assert not is_temporary(name)


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise OSError(28, "No space left on device")  # as write() and fsync() do: without a name

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomic(tmp_path / "a", b"x")
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "a"), None)
    with pytest.raises(OSError, match="No space left") as caught_too, naming(tmp_path / "b"):
        refuse(0)
    assert caught_too.value.filename == str(tmp_path / "b")
    assert list(tmp_path.iterdir()) == []
