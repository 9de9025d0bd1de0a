"""Vectors and classes from CSV and NPZ files, and what is said of files that cannot be used."""

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from iclab.errors import InputError
from iclab.prompts import LabelledVectors

VECTORS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, -6.5], [7.0, 1e-3]])
CLASSES = ["b", "a", "a", "b"]
LINES = ["x,label,y", "1,b,2", "3,a,4", "5,a,-6.5", "7,b,1e-3"]


@pytest.fixture
def csv_of(tmp_path: Path) -> Callable[..., Path]:
    def write(lines: list[str], encoding: str = "utf-8") -> Path:
        path = tmp_path / "vectors.csv"
        path.write_text("\n".join(lines) + "\n", encoding=encoding)
        return path

    return write


@pytest.fixture
def npz_of(tmp_path: Path) -> Callable[..., Path]:
    def write(**arrays: Any) -> Path:
        path = tmp_path / "vectors.npz"
        np.savez(path, **arrays)
        return path

    return write


def check(data: LabelledVectors) -> None:
    assert torch.equal(data.vectors, torch.from_numpy(VECTORS))
    assert data.names == ("a", "b")
    assert data.indices.tolist() == [1, 0, 0, 1]
    assert data.classes.tolist() == CLASSES


def test_a_csv_file_is_read(csv_of):
    check(LabelledVectors.from_csv(csv_of(LINES)))
    check(LabelledVectors.from_csv(csv_of(LINES, "utf-8-sig")))
    check(LabelledVectors.from_csv(csv_of([*LINES[:3], "", *LINES[3:]])))
    check(LabelledVectors.from_csv(csv_of(['"x","kind","y"', *LINES[1:]]), label="kind"))


def test_classes_of_a_csv_file_that_are_all_integers_are_numbers(csv_of):
    lines = ["x,label", "1,10", "2,9", "3, 10", "4,9"]
    data = LabelledVectors.from_csv(csv_of(lines))
    assert data.names == (9, 10)
    assert data.indices.tolist() == [1, 0, 1, 0]
    mixed = LabelledVectors.from_csv(csv_of([*lines, "5,x", "6,x"]))
    assert mixed.names == ("10", "9", "x")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("123456789012345678901234567890", "123456789012345678901234567891"),
        ("9223372036854775808", "7"),
        ("007", "7"),
        ("1_0", "10"),
    ],
)
def test_classes_of_a_csv_file_that_integers_cannot_tell_apart_are_text(csv_of, first: str, second: str):
    data = LabelledVectors.from_csv(csv_of(["x,label", f"1,{first}", f"2,{second}", f"3,{first}", f"4,{second}"]))
    assert set(data.names) == {first, second}
    assert data.classes.tolist() == [first, second, first, second]


def test_an_npz_archive_is_read(npz_of):
    data = LabelledVectors.from_npz(npz_of(vectors=VECTORS.astype(np.float64), classes=CLASSES))
    check(data)
    assert data.triggered is None
    named = LabelledVectors.from_npz(npz_of(X=VECTORS, y=CLASSES, triggered=VECTORS + 1), "X", "y")
    check(named)
    assert named.triggered is not None
    assert torch.equal(named.triggered, torch.from_numpy(VECTORS + 1))


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (["x,y", "1,2"], "has the columns x, y; expected one named 'label'"),
        (["label", "a"], "has the columns label; expected one named 'label' and at least one other"),
        (["label,label,x", "a,b,1"], "expected one named 'label'"),
        (LINES[:1], "has 1 lines; expected the names of the columns and a line a vector"),
        ([], "has 0 lines"),
        ([*LINES, "1,a"], "line 6: 2 entries; expected 3"),
        ([*LINES[:2], "3,a,four"], "line 3, column 'y': 'four' is no finite number"),
        ([*LINES[:2], "nan,a,4"], "line 3, column 'x': 'nan' is no finite number"),
        ([*LINES[:2], ",a,4"], "line 3, column 'x': '' is no finite number"),
        ([*LINES[:2], "1_0,a,4"], "'1_0' is no finite number"),
        ([*LINES[:2], "1e999,a,4"], "'1e999' is no finite number"),
        ([*LINES[:2], '"3,a,4'], "cannot be read as a CSV file"),
        ([*LINES, "9,,4"], "line 6, column 'label': '' is no class"),
        ([*LINES[:2], "3,  ,4", *LINES[3:]], "line 3, column 'label': '  ' is no class"),
        (['"x\ny",z', "1,2"], "has the columns x y, z; expected one named 'label'"),
        (LINES[:3], "1 of class a, 1 of class b; expected two classes or more, with two vectors each"),
        (["x,label", "1,a", "1,a", "1,b", "1,b"], "all 4 vectors are equal"),
    ],
)
def test_wrong_csv_files_are_refused(csv_of, lines: list[str], word: str):
    with pytest.raises(InputError, match=word) as caught:
        LabelledVectors.from_csv(csv_of(lines))
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, csv_of):
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00x,label")
    for read in (LabelledVectors.from_csv, LabelledVectors.from_npz):
        for path in (tmp_path / "absent", tmp_path, binary):
            with pytest.raises(InputError, match=f"{re.escape(str(path))} cannot be read as"):
                read(path)
    with pytest.raises(InputError, match=r"cannot be read as an \.npz archive"):
        LabelledVectors.from_npz(csv_of(LINES))


def header(text: str) -> bytes:
    """The beginning of an .npy file, as format 1.0 has it."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin-1")


@pytest.mark.parametrize(
    "array",
    [
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000, 1000)}\n"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (" + 20 * "9" + ", 2)}\n"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (4, 2\n"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (4, -2)}\n"),
        header("{'descr': ('<f8', '<q'), 'fortran_order': False, 'shape': (4, 2)}\n"),
        header("(" * 5000 + "\n"),
        header("'\\"),
        header("\xff\n"),
        header(""),
        b"\x93NUMPY\x07\x00",
    ],
)
def test_arrays_with_a_broken_header_are_refused(tmp_path: Path, array: bytes):
    path = tmp_path / "vectors.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vectors.npy", array)
        archive.writestr("classes.npy", array)
    with pytest.raises(InputError, match=r"cannot be read as an \.npz archive of plain arrays: .") as caught:
        LabelledVectors.from_npz(path)
    assert "\n" not in str(caught.value)


def test_what_is_no_path_is_refused():
    paths: list[Any] = [None, 0, b"vectors"]
    for path in paths:
        for read in (LabelledVectors.from_csv, LabelledVectors.from_npz):
            with pytest.raises(InputError, match="cannot be read as"):
                read(path)


def test_wrong_npz_archives_are_refused(npz_of, tmp_path: Path):
    with pytest.raises(InputError, match="has no array 'classes'; it holds vectors, labels"):
        LabelledVectors.from_npz(npz_of(vectors=VECTORS, labels=CLASSES))
    with pytest.raises(InputError, match=r"cannot be read as an \.npz archive of plain arrays"):
        LabelledVectors.from_npz(npz_of(vectors=VECTORS, classes=np.array(CLASSES, dtype=object)))
    with pytest.raises(InputError, match="classes are of type float64"):
        LabelledVectors.from_npz(npz_of(vectors=VECTORS, classes=np.array([0.5, 1.0, 0.5, 1.0])))
    one = tmp_path / "one.npy"
    np.save(one, VECTORS)
    with pytest.raises(InputError, match=r"holds one array; expected an \.npz archive"):
        LabelledVectors.from_npz(one)
    path = npz_of(vectors=VECTORS, classes=CLASSES)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cannot be read as an \.npz archive"):
        LabelledVectors.from_npz(path)
    path.write_bytes(whole.replace(VECTORS.tobytes(), (VECTORS + 1).tobytes()))
    with pytest.raises(InputError, match=r"cannot be read as an \.npz archive"):
        LabelledVectors.from_npz(path)
