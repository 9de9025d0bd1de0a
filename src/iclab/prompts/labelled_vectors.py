"""`LabelledVectors`: a user's own vectors and their classes, from arrays or from a CSV or NPZ file."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.prompts.arguments import described, one_line, own_matrix


class LabelledVectors:
    """Vectors and their classes, checked.

    Args:
        vectors: ``(n, d)`` finite numbers, not all rows equal.
        classes: ``(n,)`` integers or strings that are not blank, at least two of each of at least two classes.
        triggered: ``(n, d)``, the same items with a trigger, or ``None``.

    Attributes:
        vectors, triggered: float64 tensors.
        names: the classes, sorted.
        indices: ``(n,)`` int64, the index into ``names`` of each vector.

    Raises:
        InputError: for anything else.
    """

    def __init__(self, vectors: object, classes: object, triggered: object = None) -> None:
        self.vectors = _matrix("vectors", vectors)
        self.triggered = None if triggered is None else _matrix("triggered", triggered)
        if self.triggered is not None:
            if self.triggered.shape != self.vectors.shape:
                raise InputError(
                    f"triggered has shape {tuple(self.triggered.shape)} for vectors of shape "
                    f"{tuple(self.vectors.shape)}; expected one triggered version of each vector"
                )
            if torch.equal(self.triggered, self.vectors):
                raise InputError("triggered equals vectors; expected the trigger to change something")
        self.names, self.indices = _classes(classes, len(self.vectors))
        self.centre_and_spread()

    @property
    def classes(self) -> np.ndarray:
        """``(n,)``: the class of each vector."""
        return np.asarray(self.names)[self.indices.numpy()]

    def centre_and_spread(self) -> tuple[Tensor, float]:
        """Return the mean ``(d,)`` of the vectors, and their root mean square distance from it.

        Raises:
            InputError: for entries above 1e150 or all below 1e-290 in size, and where all vectors are equal.
        """
        largest = float(self.vectors.abs().max())
        if largest > 1e150:
            raise InputError(f"a vector has an entry of size {largest:.3g}; expected at most 1e150 (divide them all)")
        if 0 < largest < 1e-290:
            raise InputError(
                f"no entry of the vectors is above {largest:.3g}; expected 1e-290 or more (multiply them all)"
            )
        centre = self.vectors.mean(0)
        unit = 2.0 ** math.frexp(largest)[1]  # a power of two: squares neither underflow nor change their digits
        spread = unit * float(((self.vectors - centre) / unit).square().sum(1).mean().sqrt())
        if spread <= 1e-12 * largest:
            raise InputError(f"all {len(self.vectors)} vectors are equal; expected vectors that differ")
        return centre, spread

    @classmethod
    def from_npz(cls, path: str | Path, vectors: str = "vectors", classes: str = "classes") -> LabelledVectors:
        """Read the vectors, their classes and, where the file holds it, ``triggered`` from a NumPy archive.

        Args:
            path: an ``.npz`` archive.
            vectors: name of the array of vectors.
            classes: name of the array of classes.

        Raises:
            InputError: for a file that cannot be read, lacks an array or holds Python objects, and as the class.
        """
        try:
            with open(Path(path), "rb") as file:
                archive = np.load(file, allow_pickle=False)
                if not isinstance(archive, np.lib.npyio.NpzFile):
                    raise InputError(f"{path} holds one array; expected an .npz archive with {vectors} and {classes}")
                for name in (vectors, classes):
                    if name not in archive:
                        held = one_line(", ".join(archive.files)) or "nothing"
                        raise InputError(f"{path} has no array {name!r}; it holds {held}")
                arrays = {name: archive[name] for name in (vectors, classes, "triggered") if name in archive}
        except InputError:
            raise
        except Exception as error:  # the parsers of archives, headers and compressed data have an error each
            raise InputError(f"{path} cannot be read as an .npz archive of plain arrays: {_reason(error)}") from None
        return cls(arrays[vectors], arrays[classes], arrays.get("triggered"))

    @classmethod
    def from_csv(cls, path: str | Path, label: str = "label") -> LabelledVectors:
        """Read a CSV file whose first line names the columns.

        Args:
            path: the file.
            label: the column of the classes; all others hold numbers. Classes that are all integers of 64 bits, each
                written in one way, are read as such, other ones as text.

        Raises:
            InputError: for a file that cannot be read, lacks the column, has lines of different lengths, no label or an
                entry that is no finite number, with its line and column, and as the class.
        """
        try:
            with open(Path(path), encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file, strict=True)
                rows = [(reader.line_num, row) for row in reader if row]
        except (OSError, TypeError, ValueError, csv.Error) as error:
            raise InputError(f"{path} cannot be read as a CSV file: {_reason(error)}") from None
        if len(rows) < 2:
            raise InputError(f"{path} has {len(rows)} lines; expected the names of the columns and a line a vector")
        header = [name.strip() for name in rows[0][1]]
        if header.count(label) != 1 or len(header) < 2:
            raise InputError(
                f"{path} has the columns {one_line(', '.join(header[:8]))}{', ...' if len(header) > 8 else ''}; "
                f"expected one named {label!r} and at least one other (label= names the column of the classes)"
            )
        column = header.index(label)
        vectors, classes = [], []
        for line, row in rows[1:]:
            if len(row) != len(header):
                raise InputError(f"{path}, line {line}: {len(row)} entries; expected {len(header)}, as in the first")
            if not row[column].strip():
                found = f"column {label!r}: {row[column]!r} is no class"
                raise InputError(f"{path}, line {line}, {found} (remove the line)")
            classes.append(row[column].strip())
            vectors.append([_number(f"{path}, line {line}", header[k], row[k]) for k in range(len(row)) if k != column])
        return cls(np.array(vectors), _integers(classes))


def _matrix(name: str, value: object) -> Tensor:
    try:
        shape = tuple(np.shape(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):  # rows of different lengths, say: reported below
        shape = (1, 1)
    if len(shape) != 2 or 0 in shape:
        raise InputError(f"{name} have shape {shape}; expected (number of vectors, dimension)")
    return own_matrix(name, value)


def _classes(classes: object, count: int) -> tuple[tuple[int | str, ...], Tensor]:
    array = _class_array(classes)
    if array.dtype.kind == "O" and all(isinstance(entry, str) for entry in array.ravel()):
        array = array.astype(str)
    if array.dtype.kind not in "iubU":
        raise InputError(f"classes are of type {array.dtype}; expected integers or strings")
    if array.shape != (count,):
        raise InputError(f"classes have shape {array.shape} for {count} vectors; expected one class a vector")
    if array.dtype.kind == "U":
        for index, (name, given) in enumerate(zip(array.tolist(), classes, strict=True)):  # type: ignore[call-overload]
            if not isinstance(given, str) or not name.strip():  # NumPy turns a missing one into text
                found = repr(name) if isinstance(given, str) else described(given)
                raise InputError(f"class number {index} is {found}; expected a string (remove or label it)")
    names, indices, sizes = np.unique(array, return_inverse=True, return_counts=True)
    if len(names) < 2 or sizes.min() < 2:
        shown = [one_line(str(name)) for name in names[:8]]
        found = ", ".join(f"{size} of class {name}" for name, size in zip(shown, sizes, strict=False))
        raise InputError(f"there are vectors {found}; expected two classes or more, with two vectors each or more")
    return tuple(names.tolist()), torch.from_numpy(indices.astype(np.int64))


def _class_array(classes: object) -> np.ndarray:
    parts = classes if isinstance(classes, list | tuple) else [classes]
    if any(np.ma.is_masked(part) for part in parts):
        raise InputError("classes have masked entries; expected a class for each vector (remove or label them)")
    try:
        return classes.detach().cpu().numpy() if isinstance(classes, Tensor) else np.asarray(classes)
    except (TypeError, ValueError, RuntimeError):
        kind = f"of type {classes.dtype}" if isinstance(classes, Tensor) else described(classes)
        raise InputError(f"classes are {kind}; expected integers or strings, one a vector") from None


def _number(where: str, column: str, text: str) -> float:
    try:
        number = math.nan if "_" in text else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{where}, column {column!r}: {text!r} is no finite number (remove or impute it)")
    return number


def _integers(texts: list[str]) -> np.ndarray:
    """``texts`` as integers of 64 bits if all are such and no two are one number: 7 and 007 are two classes."""
    try:
        numbers = np.array([_integer(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(texts)
    return numbers if len(set(texts)) == len(np.unique(numbers)) else np.array(texts)


def _integer(text: str) -> int:
    if "_" in text:
        raise ValueError
    return int(text)


def _reason(error: Exception) -> str:
    """The first line of an error, without the path that some have."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.partition("\n")[0] or type(error).__name__
