"""Where metrics may go beside ``metrics.jsonl``: TensorBoard, Weights & Biases, or a writer of the user's own."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from iclab.errors import InputError


class MetricsWriter(Protocol):
    """Receives what a training tells, in process 0 alone."""

    def start(self, settings: Mapping[str, object], step: int) -> None:
        """Prepare for the lines of a training; called before its first step.

        Args:
            settings: of the training.
            step: steps taken earlier (0, or where a training is resumed).
        """
        ...

    def write(self, line: Mapping[str, object]) -> None:
        """Write a line of ``metrics.jsonl``."""
        ...

    def close(self) -> None:
        """Finish after the last step, or when training stops."""
        ...


class TensorBoard:
    """Scalars for TensorBoard. A resumed training hides what a killed one wrote beyond its last checkpoint.

    Args:
        folder: of the event files.

    Raises:
        InputError: where tensorboard is not installed, or its import fails.
    """

    def __init__(self, folder: Path | str) -> None:
        self._module = _load("torch.utils.tensorboard", "tensorboard")
        self._folder = Path(folder)
        self._writer: Any = None

    def start(self, settings: Mapping[str, object], step: int) -> None:
        """Open an event file.

        Args:
            settings: written as text.
            step: as in `MetricsWriter.start`; what an earlier attempt wrote after it is dropped.
        """
        self._writer = self._module.SummaryWriter(str(self._folder), purge_step=step + 1 if step else None)
        self._writer.add_text("settings", "\n".join(f"    {key}: {value}" for key, value in settings.items()), step)

    def write(self, line: Mapping[str, object]) -> None:
        """Write one scalar for each number of the line."""
        values = flat(line)
        for name, value in values.items():
            self._writer.add_scalar(name, value, int(values["step"]))

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases:
    """Scalars for a Weights & Biases run.

    Args:
        project: its name.
        options: further arguments of ``wandb.init``. With an ``id`` of its own, a resumed training goes on in the same
            run.

    Raises:
        InputError: where wandb is not installed, or its import fails.
    """

    def __init__(self, project: str, **options: Any) -> None:
        self._module = _load("wandb", "wandb")
        self._options = {"project": project, "resume": "allow", **options}
        self._run: Any = None

    def start(self, settings: Mapping[str, object], step: int) -> None:
        """Open the run.

        Args:
            settings: the ``config`` of the run.
            step: not used.
        """
        self._run = self._module.init(config=dict(settings), **self._options)

    def write(self, line: Mapping[str, object]) -> None:
        """Log one number for each number of the line."""
        values = flat(line)
        self._run.log(values, step=int(values["step"]))

    def close(self) -> None:
        """End the run."""
        if self._run is not None:
            self._run.finish()


def flat(line: Mapping[str, object]) -> dict[str, float]:
    """``{"evaluation": {"loss": 1}}`` as ``{"evaluation/loss": 1}``."""
    values: dict[str, float] = {}
    for name, value in line.items():
        if isinstance(value, Mapping):
            values |= {f"{name}/{key}": inner for key, inner in value.items()}
        else:
            values[name] = value  # type: ignore[assignment]
    return values


def _load(module: str, package: str) -> ModuleType:
    # Imported by name: the numeric rooms know no package beyond torch, numpy, scipy and safetensors.
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name in (module, package):
            raise InputError(
                f'{package} is not installed; expected it for this writer: pip install "iclab[trackers]"'
            ) from None
        raise _broken(package, error) from error
    except Exception as error:  # whatever a broken installation raises
        raise _broken(package, error) from error


def _broken(package: str, error: Exception) -> InputError:
    reason = str(error).strip().partition("\n")[0]
    return InputError(
        f"{package} is installed and its import fails ({type(error).__name__}: {reason}); expected one that works: "
        f'install it again with pip install --force-reinstall "{package}"'
    )
