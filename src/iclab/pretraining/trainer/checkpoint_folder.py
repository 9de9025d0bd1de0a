"""The folder of a training: ``metrics.jsonl``, the newest checkpoints, and the best by evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.files import is_temporary, write_atomic
from iclab.lock import locked
from iclab.pretraining.failures import unwritten
from iclab.pretraining.trainer.checkpoint import Checkpoint
from iclab.pretraining.trainer.identity import check_model, check_weights, describe_model

_STEP = re.compile(r"step-(\d{9,})\.safetensors")
BEST = "best.safetensors"
METRICS = "metrics.jsonl"


class CheckpointFolder:
    """Checkpoints ``step-000001000.safetensors`` and ``best.safetensors``. A file is whole or absent.

    Args:
        path: the folder; `held` makes it.
        keep: how many of the newest checkpoints stay, beside the best.
    """

    def __init__(self, path: Path | str, keep: int = 1) -> None:
        self.path, self.keep = Path(path), keep

    @property
    def metrics(self) -> Path:
        """``metrics.jsonl``."""
        return self.path / METRICS

    @property
    def best(self) -> Path:
        """``best.safetensors``, whether it exists or not."""
        return self.path / BEST

    @contextmanager
    def held(self, resume: bool) -> Iterator[None]:
        """Make the folder where it is missing, keep other processes out of it, remove what a killed one left behind.

        Raises:
            InputError: where that cannot be done, another process trains into it, or it holds a training that is not
                to be resumed.
            OSError: where a file of the folder cannot be written later, naming it, the folder and the last checkpoint.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(self.path, error) from None
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path))
            except OSError as error:
                raise _unusable(self.path, error) from None
            self._open(resume)
            try:
                yield
            except OSError as error:
                if not isinstance(error.filename, str) or Path(error.filename).parent != self.path:
                    raise
                raise unwritten(error, self.path, self.newest()) from None

    def _open(self, resume: bool) -> None:
        newest = self.newest()
        if newest is not None and not resume:
            raise InputError(
                f"{self.path} holds a training already ({newest.name}); choose another folder, or resume it with "
                "resume=True"
            )
        try:
            for leftover in self.path.glob(".*.tmp"):
                if is_temporary(leftover.name):
                    leftover.unlink(missing_ok=True)
            self._remove_old()
        except OSError as error:
            raise _unusable(self.path, error) from None

    def steps(self) -> list[int]:
        """The steps of the rolling checkpoints, in order."""
        if not self.path.is_dir():
            return []
        found = (_STEP.fullmatch(entry.name) for entry in self.path.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def at(self, step: int) -> Path:
        """The file of a step."""
        return self.path / f"step-{step:09d}.safetensors"

    def newest(self) -> Path | None:
        """The rolling checkpoint of the last step."""
        steps = self.steps()
        return self.at(steps[-1]) if steps else None

    def write(self, step: int, checkpoint: Checkpoint) -> Path:
        """Write the checkpoint of ``step``; when it is safe, remove all but the newest."""
        path = write_atomic(self.at(step), checkpoint.to_bytes())
        self._remove_old()
        return path

    def write_best(self, checkpoint: Checkpoint) -> Path:
        """Write the best checkpoint so far."""
        return write_atomic(self.best, checkpoint.to_bytes())

    def _remove_old(self) -> None:
        for step in self.steps()[: -self.keep]:
            self.at(step).unlink(missing_ok=True)


def _unusable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be used as a folder: {(error.strerror or str(error)).lower()}; give another")


def read_checkpoint(path: Path) -> bytes:
    """The bytes of a checkpoint file.

    Raises:
        InputError: where it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {(error.strerror or str(error)).lower()}; expected a checkpoint that train wrote"
        ) from None


def load_checkpoint(model: nn.Module, path: Path | str, *, which: str = "last", averaged: bool = True) -> int:
    """Give ``model`` the weights of a checkpoint that `train` wrote; returns the step they are from.

    Args:
        model: of the class and with the settings of the one that was trained.
        path: the folder of a training, or one of its checkpoint files.
        which: ``last`` or ``best`` of a folder.
        averaged: take the averaged weights, where there are some.

    Raises:
        InputError: where there is no such checkpoint, or it is damaged or of another model.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"the model is a {type(model).__name__}; expected a torch.nn.Module, as train was given")
    if which not in ("last", "best"):
        raise InputError(f"which is {which!r}; expected last or best")
    file = Path(path)
    if file.is_dir():
        folder = CheckpointFolder(file)
        found = folder.newest() if which == "last" else folder.best
        if found is None:
            raise InputError(f"{file} holds no checkpoint; expected the folder that train wrote")
        file = found
    checkpoint = Checkpoint.from_bytes(read_checkpoint(file), str(file))
    check_model(str(file), checkpoint.description, describe_model(model))
    weights = checkpoint.part("model")
    check_weights(str(file), model, weights)
    model.load_state_dict(weights)
    if averaged:
        _put(model, checkpoint.part("average"))
    return checkpoint.description["step"]


@torch.no_grad()
def _put(model: nn.Module, averages: Mapping[str, Tensor]) -> None:
    """Give the parameters their averages. Each has one, under its first name; the weights know it by all its names."""
    for name, parameter in model.named_parameters():
        if name in averages:
            parameter.copy_(averages[name])
