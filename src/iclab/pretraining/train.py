"""`train`: fitting a sequence model over many tasks by Adam, prompt after fresh prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import nn

from iclab.errors import check_integer
from iclab.memory import keep_freed_memory, memory_advice
from iclab.pretraining.batches import Batches
from iclab.pretraining.checkpoint_folder import CheckpointFolder
from iclab.pretraining.curriculum import Curriculum
from iclab.pretraining.distributed import join
from iclab.pretraining.fixed_evaluation import FixedEvaluation
from iclab.pretraining.optimisation import Optimisation
from iclab.pretraining.phases import Plan, check_dimension
from iclab.pretraining.train_record import TrainProgress, TrainRecord
from iclab.pretraining.train_settings import TrainSettings
from iclab.pretraining.trainer import Trainer, TrainingOutputs
from iclab.pretraining.training_place import (
    find_device,
    input_dim,
    max_examples,
    own_randomness,
    trained_dtype,
    training_mode,
)
from iclab.pretraining.writers import MetricsWriter
from iclab.prompts import CHUNK, PromptDistribution, Stream
from iclab.prompts.distribution import check_distribution


def train(
    model: nn.Module,
    prompts: PromptDistribution,
    *,
    stream: Stream,
    num_examples: int,
    steps: int,
    batch_size: int = 64,
    learning_rate: float = 1e-4,
    optimiser: str = "adam",
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    warmup_steps: int = 0,
    schedule: str = "constant",
    final_scale: float = 0.0,
    clip_norm: float | None = 1.0,
    loss_on: str = "prefixes",
    num_queries: int = 1,
    curriculum: Curriculum | None = None,
    average: float | None = None,
    autocast: str | None = None,
    accumulate: int = 1,
    compile: bool = False,
    device: torch.device | str | None = None,
    prefetch: bool | None = None,
    evaluate_every: int | None = None,
    evaluation_prompts: int = 256,
    log_every: int = 10,
    folder: Path | str | None = None,
    checkpoint_every: int = 1000,
    keep: int = 2,
    resume: bool = True,
    writers: Sequence[MetricsWriter] = (),
    progress: Callable[[TrainProgress], None] | None = None,
) -> tuple[nn.Module, TrainRecord]:
    """Pretrain ``model`` in place on fresh prompts, and return it with a record.

    The loss is ``mean over prompts and positions of (f - y)^2`` against the noisy labels, in float32 (in float64 where
    the model is). Defaults are the field's usual recipe (arXiv 2208.01066): Adam at 1e-4, batches of 64, the loss on
    every prefix; that recipe has 500,001 steps and a curriculum besides.

    Args:
        model: with ``input_dim``, ``prefixes(prompts) -> (B, N)`` or ``queries(prompts) -> (B, Q)`` (see ``loss_on``),
            and, where it has them, ``max_examples``, ``settings()``, ``parameter_groups(weight_decay)``. An
            `iclab.models.InContextModel` has all of them.
        prompts: the law of prompts that training ends with.
        stream: of all randomness; the roles are ``train``, ``evaluation``, ``model`` (dropout) and ``identity``.
        num_examples: N, examples of a prompt that training ends with.
        steps: steps of the optimiser.
        batch_size: prompts of a step, over all processes and micro-batches; a multiple of 8.
        learning_rate, optimiser, betas, epsilon, weight_decay: of ``adam`` or ``adamw``. Weight decay spares vectors
            and what the model's groups spare; with ``adam`` it is the gradient of a squared norm, as in torch.
        warmup_steps: linear growth of the rate; Transformers need it where Mamba does not.
        schedule, final_scale: ``constant``, ``cosine`` or ``linear``, ending at ``final_scale`` times the rate.
        clip_norm: largest norm of the gradient; ``None`` does not clip. One is the usual choice: rare prompts with huge
            labels (any link that is a polynomial has them) would otherwise decide a step.
        loss_on: ``prefixes``, where column k predicts example k from those before it (every example teaches), or
            ``queries``, with ``num_queries`` after the whole context, as in the theory.
        curriculum: scalars of the law that grow, see `Curriculum`; ``None`` trains on the final law throughout.
        average: decay of an exponential moving average of the weights, such as 0.999; then the model is evaluated
            with and returned with the averages.
        autocast: ``"bfloat16"`` for the model's matrix products; the loss stays in float32.
        accumulate: micro-batches of a step, one after another: less memory, and the same gradient to rounding where
            each prompt is predicted by itself. With dropout it is another draw of what is dropped.
        compile: send the trained pass through ``torch.compile``. A new length is a new compilation.
        device: ``cpu``, ``cuda`` (``cuda:1``) or ``mps``; ``None`` stays where the model is.
        prefetch: draw the next batch in a thread meanwhile; ``None`` does so where the model is not on the CPU. Never
            changes a number.
        evaluate_every: steps between evaluations on ``evaluation_prompts`` fixed prompts of the final law; ``None`` for
            none. Theirs is the best checkpoint.
        log_every: steps of a line of metrics, which holds means over them. On a GPU, numbers are read only then.
        folder: of checkpoints and ``metrics.jsonl``; ``None`` keeps all in memory.
        checkpoint_every, keep: steps between checkpoints, and how many stay beside the best.
        resume: go on from the newest checkpoint in ``folder``; otherwise a folder that has one is refused.
        writers: `TensorBoard`, `WeightsAndBiases`, or anything with their methods.
        progress: called with a `TrainProgress` at every line of metrics.

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
    settings = TrainSettings(
        stream=stream,
        num_examples=num_examples,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        optimiser=optimiser,
        betas=tuple(betas) if isinstance(betas, Iterable) else betas,  # type: ignore[arg-type]
        epsilon=epsilon,
        weight_decay=weight_decay,
        warmup_steps=warmup_steps,
        schedule=schedule,
        final_scale=final_scale,
        clip_norm=clip_norm,
        loss_on=loss_on,
        num_queries=num_queries,
        curriculum=Curriculum() if curriculum is None else curriculum,
        autocast=autocast,
        average=average,
        evaluate_every=evaluate_every,
        evaluation_prompts=evaluation_prompts,
        log_every=log_every,
    )
    for name, value in (("accumulate", accumulate), ("checkpoint_every", checkpoint_every), ("keep", keep)):
        check_integer(name, value, 1)
    plan = Plan(prompts, num_examples, steps, settings.curriculum, max_examples(model))
    check_dimension(plan.phases, input_dim(model))
    dtype, place = trained_dtype(model), find_device(model, device)
    store = None if folder is None else CheckpointFolder(folder, keep)
    outputs = TrainingOutputs(store, checkpoint_every, tuple(writers), progress)
    advice = f"lower batch_size ({batch_size}) or num_examples ({num_examples}), or raise accumulate ({accumulate})"
    world = join(place)
    keep_freed_memory()
    with (
        memory_advice(f"training {type(model).__name__}", place, advice),
        own_randomness(place),
        training_mode(model),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        model.to(place)
        world.check_same_training(model, {**settings.asdict(), "parts": accumulate, "checkpoints": checkpoint_every})
        world.share_model(model)
        data, queries = stream.child("train"), settings.drawn_queries
        batches = Batches(plan, data, batch_size, queries, dtype, accumulate, world.rank, world.size)
        rows = max(CHUNK, batch_size // (accumulate * world.size))
        evaluation = None if evaluate_every is None else FixedEvaluation(prompts, settings, place, dtype, rows)
        optimisation = Optimisation(model, settings, world, place, compile)
        trainer = Trainer(model, prompts, settings, plan, batches, optimisation, evaluation, world, outputs)
        with store.held(resume) if store is not None and world.leads else nullcontext():
            return model, trainer.run(place.type != "cpu" if prefetch is None else prefetch)
