"""`train`: fitting a sequence model over many tasks by Adam, prompt after fresh prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from iclab.errors import check_integer
from iclab.memory import keep_freed_memory, memory_advice
from iclab.pretraining.device import (
    find_device,
    input_dim,
    max_examples,
    own_randomness,
    trained_dtype,
    training_mode,
)
from iclab.pretraining.record import TrainProgress
from iclab.pretraining.trainer.batches import Batches
from iclab.pretraining.trainer.checkpoint_folder import CheckpointFolder
from iclab.pretraining.trainer.distributed import join
from iclab.pretraining.trainer.fixed_evaluation import FixedEvaluation
from iclab.pretraining.trainer.identity import describe_settings
from iclab.pretraining.trainer.loop import Trainer, TrainingOutputs
from iclab.pretraining.trainer.optimisation import Optimisation
from iclab.pretraining.trainer.phases import Plan, check_dimension
from iclab.pretraining.trainer.record import TrainRecord
from iclab.pretraining.trainer.writers import MetricsWriter
from iclab.prompts import CHUNK, PromptDistribution, Stream
from iclab.prompts.distribution import check_distribution
from iclab.prompts.stream import check_stream
from iclab.settings.fields import with_changes
from iclab.settings.train import TrainSettings


def train(
    model: nn.Module,
    prompts: PromptDistribution,
    settings: TrainSettings | None = None,
    *,
    stream: Stream,
    accumulate: int = 1,
    compile: bool = False,
    device: torch.device | str | None = None,
    prefetch: bool | None = None,
    folder: Path | str | None = None,
    checkpoint_every: int = 1000,
    keep: int = 2,
    resume: bool = True,
    writers: Sequence[MetricsWriter] = (),
    progress: Callable[[TrainProgress], None] | None = None,
    **changes: Any,
) -> tuple[nn.Module, TrainRecord]:
    """Pretrain ``model`` in place on fresh prompts, and return it with a record.

    The loss is ``mean over prompts and positions of (f - y)^2`` against the noisy labels, in float32 (in float64 where
    the model is).

    Args:
        model: with ``input_dim``, ``prefixes(prompts) -> (B, N)`` or ``queries(prompts) -> (B, Q)`` (see ``loss_on``),
            and, where it has them, ``max_examples``, ``settings()``, ``parameter_groups(weight_decay)``. An
            `iclab.models.InContextModel` has all of them.
        prompts: the prompt distribution that training ends with.
        settings: what the result depends on beside the model, the prompts and the stream; see `TrainSettings`.
        stream: of all randomness; the roles are ``train``, ``evaluation``, ``model`` (dropout) and ``identity``.
        accumulate: micro-batches of a step, one after another: less memory, and the same gradient to rounding where
            each prompt is predicted by itself. With dropout it is another draw of what is dropped.
        compile: send the trained pass through ``torch.compile``. A new length is a new compilation.
        device: ``cpu``, ``cuda`` (``cuda:1``) or ``mps``; ``None`` stays where the model is.
        prefetch: draw the next batch in a thread meanwhile; ``None`` does so where the model is not on the CPU. Never
            changes a number.
        folder: of checkpoints and ``metrics.jsonl``; ``None`` keeps all in memory.
        checkpoint_every, keep: steps between checkpoints, and how many stay beside the best.
        resume: go on from the newest checkpoint in ``folder``; otherwise a folder that has one is refused.
        writers: `TensorBoard`, `WeightsAndBiases`, or anything with their methods.
        progress: called with a `TrainProgress` at every line of metrics.
        changes: fields of `TrainSettings`, in place of ``settings`` or over them: ``train(..., num_examples=64,
            steps=2000)``.

    Interrupted at any moment and called again with the same arguments and folder, it gives the same bits as without
    the interruption (on a CPU with the same threads; on a GPU as far as its kernels are deterministic). ``accumulate``,
    the device and the number of processes may change between calls; they change rounding. ``steps`` may grow where the
    schedule is constant. Where the model draws random numbers (dropout) ``accumulate`` times the number of processes
    must stay, as each micro-batch has draws of its own. Under ``torchrun`` each process takes its part of every batch.

    Raises:
        InputError: before any step, for arguments out of range, a curriculum beyond the model's positions, a folder
            with another training or a damaged checkpoint, or into which
            another process trains; later, where memory does not suffice.
        OSError: where the disk is full, say: with the file, the folder and the last checkpoint.
        NonFiniteLossError: where the loss or its gradient stops being finite.
    """
    check_distribution(prompts)
    check_stream(stream)
    settings = with_changes(TrainSettings, settings, changes, "train")
    for name, value in (("accumulate", accumulate), ("checkpoint_every", checkpoint_every), ("keep", keep)):
        check_integer(name, value, 1)
    plan = Plan(prompts, settings.num_examples, settings.steps, settings.curriculum, max_examples(model))
    check_dimension(plan.phases, input_dim(model))
    dtype, trained_on = trained_dtype(model), find_device(model, device)
    store = None if folder is None else CheckpointFolder(folder, keep)
    outputs = TrainingOutputs(store, checkpoint_every, tuple(writers), progress)
    batch_size, num_examples = settings.batch_size, settings.num_examples
    advice = f"lower batch_size ({batch_size}) or num_examples ({num_examples}), or raise accumulate ({accumulate})"
    world = join(trained_on)
    keep_freed_memory()
    with (
        memory_advice(f"training {type(model).__name__}", trained_on, advice),
        own_randomness(trained_on),
        training_mode(model),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        model.to(trained_on)
        described = describe_settings(settings, stream)
        world.check_same_training(model, {**described, "parts": accumulate, "checkpoints": checkpoint_every})
        world.share_model(model)
        data, queries = stream.child("train"), settings.drawn_queries
        batches = Batches(plan, data, batch_size, queries, dtype, accumulate, world.rank, world.size)
        rows = max(CHUNK, batch_size // (accumulate * world.size))
        evaluates = settings.evaluate_every is not None
        evaluation = FixedEvaluation(prompts, settings, stream, trained_on, dtype, rows) if evaluates else None
        optimisation = Optimisation(model, settings, stream, world, trained_on, compile)
        trainer = Trainer(model, prompts, settings, stream, plan, batches, optimisation, evaluation, world, outputs)
        with store.held(resume) if store is not None and world.leads else nullcontext():
            return model, trainer.run(trained_on.type != "cpu" if prefetch is None else prefetch)
