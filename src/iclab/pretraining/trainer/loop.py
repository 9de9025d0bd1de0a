"""The loop over steps: what `train` runs once its arguments are known to be good."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from iclab.pretraining.failures import NonFiniteLossError
from iclab.pretraining.record import TrainProgress
from iclab.pretraining.trainer.average import WeightAverage
from iclab.pretraining.trainer.batches import Batches, MicroBatch
from iclab.pretraining.trainer.checkpoint import Checkpoint
from iclab.pretraining.trainer.checkpoint_folder import CheckpointFolder, read_checkpoint
from iclab.pretraining.trainer.distributed import World
from iclab.pretraining.trainer.fixed_evaluation import FixedEvaluation
from iclab.pretraining.trainer.identity import (
    check_optimised,
    check_parts,
    check_same,
    check_weights,
    describe_training,
    draw_sample,
)
from iclab.pretraining.trainer.metrics import Line, MetricsLog, Window, kept_lines
from iclab.pretraining.trainer.optimisation import Optimisation
from iclab.pretraining.trainer.phases import Plan
from iclab.pretraining.trainer.record import TrainRecord
from iclab.pretraining.trainer.writers import MetricsWriter
from iclab.prompts import PromptDistribution, Stream
from iclab.settings.train import TrainSettings


@dataclass(frozen=True)
class TrainingOutputs:
    """What of a training is written down, and what is told: nothing here changes a weight.

    Attributes:
        folder: of checkpoints and metrics, or ``None``.
        checkpoint_every: steps between rolling checkpoints.
        writers, progress: see `train`.
    """

    folder: CheckpointFolder | None
    checkpoint_every: int
    writers: Sequence[MetricsWriter]
    progress: Callable[[TrainProgress], None] | None


class Trainer:
    """A training at some step: the model, the optimiser and the metrics so far.

    Args:
        model: on its device.
        prompts: the distribution that training ends with.
        settings, stream, plan: of the training.
        batches: of this process.
        optimisation: takes the steps.
        evaluation: on fixed prompts, or ``None``.
        world: the processes.
        outputs: of process 0; the others write nothing.
    """

    def __init__(
        self,
        model: nn.Module,
        prompts: PromptDistribution,
        settings: TrainSettings,
        stream: Stream,
        plan: Plan,
        batches: Batches,
        optimisation: Optimisation,
        evaluation: FixedEvaluation | None,
        world: World,
        outputs: TrainingOutputs,
    ) -> None:
        self.model, self.settings, self.plan, self.batches = model, settings, plan, batches
        self.optimisation, self.evaluation, self.world, self.outputs = optimisation, evaluation, world, outputs
        self.average = None if settings.average is None else WeightAverage(model, settings.average)
        self.step = self.resumed_from = 0
        self._folder = outputs.folder if world.leads else None
        self._log = MetricsLog(None if self._folder is None else self._folder.metrics)
        self._window = Window()
        self._best: dict[str, Any] | None = None
        self._identity = describe_training(model, prompts, settings, stream)
        self._sample = draw_sample(prompts, stream)
        self._rate, self._earlier, self._start = settings.rate, 0.0, time.perf_counter()

    def run(self, ahead: bool) -> TrainRecord:
        """Resume where the folder has a checkpoint, take the steps that are left, and give the model its weights."""
        self._resume()
        self.world.check_same_weights(self.model, self.step)
        writers = self.outputs.writers if self.world.leads else ()
        try:
            for writer in writers:
                writer.start(self._identity["settings"], self.step)
            pin = ahead and self.world.device.type == "cuda"
            for parts in self.batches.iterate(self.step, self.settings.steps, ahead, pin):
                self._take_step(parts, writers)
        finally:
            for writer in writers:
                writer.close()
        if self.average is not None:
            self.average.put(self.model)
        return self._record()

    def _take_step(self, parts: Sequence[MicroBatch], writers: Sequence[MetricsWriter]) -> None:
        step, settings, phase = self.step, self.settings, self.plan.at(self.step)
        rate = self._rate.at(step)
        self._window.add(*self.optimisation.gradients(parts))
        if self.world.device.type == "cpu":
            self._check_finite(step)  # costs nothing here, and leaves the weights as they were before a bad step
        self.optimisation.update(rate)
        if self.average is not None:
            self.average.update(self.model, step)
        self.step = done = step + 1
        evaluate = settings.evaluate_every is not None and _due(done, settings.evaluate_every, settings.steps)
        due = _due(done, self.outputs.checkpoint_every, settings.steps)
        checkpoint = self._folder is not None and due
        write = evaluate or done == phase.stop or _due(done, settings.log_every, settings.steps)
        if evaluate or checkpoint or write:
            self._check_finite(step)
        if evaluate or due:
            self.world.check_same_weights(self.model, done)
        if write:
            self._write_line(rate, dict(phase.values), evaluate, writers)
        if checkpoint:
            self._write_checkpoint()

    def _check_finite(self, step: int) -> None:
        """Of all steps since the last line, up to the one number ``step``."""
        ago = self._window.read()
        if ago is not None:
            index = len(self._window) - 1 - ago
            loss, norm = self._window.losses[index], self._window.norms[index]
            newest = None if self._folder is None else self._folder.newest()
            raise NonFiniteLossError(step - ago + 1, loss, norm, self._rate.at(step - ago), newest)

    def _write_line(self, rate: float, values: Line, evaluate: bool, writers: Sequence[MetricsWriter]) -> None:
        line: Line = {
            "step": self.step,
            **self._window.means(),
            "learning_rate": rate,
            "prompts": self.step * self.settings.batch_size,
            "seconds": round(self._seconds(), 3),
        }
        if values:
            line["curriculum"] = values
        if evaluate:
            line["evaluation"] = self._evaluate()
        self._log.add(line)
        for writer in writers:
            writer.write(line)
        if self.outputs.progress is not None and self.world.leads:
            self.outputs.progress(self._progress(float(line["loss"]), rate))  # type: ignore[arg-type]

    def _evaluate(self) -> dict[str, float]:
        assert self.evaluation is not None
        if self.average is None:
            values = self.evaluation(self.model)
        else:
            with self.average.inside(self.model):
                values = self.evaluation(self.model)
        if self._best is None or values["loss"] < self._best["loss"]:
            self._best = {"step": self.step, "loss": values["loss"]}
            if self._folder is not None:
                self._folder.write_best(self._checkpoint(whole=False))
        return values

    def _checkpoint(self, whole: bool = True) -> Checkpoint:
        """Everything that the next steps depend on, or the weights alone."""
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        if self.average is not None:
            tensors |= {f"average/{name}": value for name, value in self.average.weights.items()}
        description = {**self._identity, "step": self.step, "whole": whole}
        if whole:
            tensors |= {f"optimiser/{name}": value for name, value in self.optimisation.state().items()}
            tensors |= {f"sample/{name}": value for name, value in self._sample.items()}
            pending = torch.tensor([self._window.losses, self._window.norms], dtype=torch.float64)
            tensors["pending"] = pending
            description |= {"best": self._best, "seconds": self._seconds(), "lines": len(self._log.lines)}
            if self.optimisation.random:
                description["parts"] = self.batches.parts
        return Checkpoint(tensors, description)

    def _write_checkpoint(self) -> None:
        assert self._folder is not None
        self._log.sync()
        self._folder.write(self.step, self._checkpoint())

    def _resume(self) -> None:
        """Continue from the newest checkpoint; without one, begin with a checkpoint of step 0."""
        path = None if self._folder is None else self._folder.newest()
        data = self.world.share(None if path is None else read_checkpoint(path))
        if data is None:
            if self._folder is not None:
                self._log.start(b"")
                self._write_checkpoint()
            return
        self._load(Checkpoint.from_bytes(data, str(path)), str(path))

    @torch.no_grad()
    def _load(self, checkpoint: Checkpoint, name: str) -> None:
        stored = checkpoint.description
        check_same(name, stored, self._identity, checkpoint.part("sample"), self._sample)
        check_parts(name, stored, self.batches.parts)
        check_weights(name, self.model, checkpoint.part("model"), dtypes=True)
        check_optimised(name, checkpoint.part("optimiser"), self.optimisation.names)
        kept = self.world.share(None if self._folder is None else kept_lines(self._folder.metrics, stored["lines"]))
        self.model.load_state_dict(checkpoint.part("model"))
        if self.average is not None:
            self.average.load(checkpoint.part("average"))
        self.optimisation.load(checkpoint.part("optimiser"))
        self._window.losses, self._window.norms = checkpoint.tensors["pending"].tolist()
        self._log.start(kept or b"")
        self.step = self.resumed_from = stored["step"]
        self._best, self._earlier = stored["best"], stored["seconds"]

    def _seconds(self) -> float:
        return self._earlier + time.perf_counter() - self._start

    def _progress(self, loss: float, rate: float) -> TrainProgress:
        elapsed = time.perf_counter() - self._start
        done = self.plan.work(self.resumed_from, self.step)
        left = elapsed * self.plan.work(self.step, self.settings.steps) / done
        return TrainProgress(self.step, self.settings.steps, loss, rate, elapsed, left)

    def _record(self) -> TrainRecord:
        folder, best = self._folder, self._best
        return TrainRecord(
            metrics=tuple(self._log.lines),
            settings={**self._identity["settings"], "model": self._identity["model"]},
            steps=self.step,
            resumed_from=self.resumed_from,
            seconds=self._seconds(),
            zero_line=None if self.evaluation is None else self.evaluation.zero_line,
            best_step=None if best is None else best["step"],
            best_loss=None if best is None else best["loss"],
            checkpoint=None if folder is None else folder.newest(),
            best_checkpoint=None if folder is None or best is None else folder.best,
            device=str(self.world.device),
            processes=self.world.size,
            threads=torch.get_num_threads(),
        )


def _due(done: int, every: int, steps: int) -> bool:
    return done % every == 0 or done == steps
