"""Gradients of one step and what is done with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from iclab.errors import InputError
from iclab.models.weight_decay import parameter_groups
from iclab.pretraining.trainer.batches import MicroBatch
from iclab.pretraining.trainer.distributed import World
from iclab.pretraining.trainer.loss import labels_of, squared_errors
from iclab.prompts import Prompts, Stream
from iclab.settings.train import TrainSettings


class Optimisation:
    """The loss of a batch, its gradient over all processes, and the optimiser's step.

    Args:
        model: the model; where it has ``parameter_groups(weight_decay)``, that says what is decayed.
        settings, stream: of the training; what the model draws comes from the role ``model``.
        world: the processes.
        device: of the model.
        compile: whether the pass that is trained goes through ``torch.compile``.

    Raises:
        InputError: for a model without the pass that the loss needs, or without a weight to train.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: TrainSettings,
        stream: Stream,
        world: World,
        device: torch.device,
        compile: bool,
    ) -> None:
        self.model, self.settings, self.world, self.device = model, settings, world, device
        predict = getattr(model, settings.loss_on, None)
        if not callable(predict):
            raise InputError(
                f"{type(model).__name__} has no method {settings.loss_on}(prompts); expected the one that loss_on = "
                f"{settings.loss_on!r} trains"
            )
        self._predict: Callable[[Prompts], Tensor] = torch.compile(predict) if compile else predict
        self._optimiser, self.names = _optimiser(model, settings)
        self._parameters = [p for group in self._optimiser.param_groups for p in group["params"]]
        self._seeds = stream.child("model")
        self.random: bool | None = None
        """Whether the model drew random numbers, as dropout does, in the first step; ``None`` before that."""

    def gradients(self, parts: Sequence[MicroBatch]) -> tuple[Tensor, Tensor]:
        """Gradients of the mean squared error of the whole batch, clipped; returns the loss and their norm before.

        A micro-batch contributes its sum of squares over the count of the whole batch, so how a batch is split changes
        nothing but rounding where each prompt is predicted by itself. Dropout is not such a case: what it draws depends
        on the micro-batch that a prompt is in. Neither number is waited for.

        Raises:
            InputError: where no parameter got a gradient in any process.
        """
        self._optimiser.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.device)
        for part in parts:
            prompts = part.prompts.to(self.device, non_blocking=True)
            count = self.settings.batch_size * labels_of(prompts, self.settings.loss_on).shape[1]
            self._seed(part.first_chunk)
            before = self._drawn() if self.random is None else None
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.autocast is not None):
                predictions = self._predict(prompts)
            loss = squared_errors(predictions, prompts, self.settings.loss_on).sum() / count
            if loss.requires_grad:  # not where this part drops all layers
                loss.backward()
            if before is not None:
                self.random = any(not torch.equal(a, b) for a, b in zip(before, self._drawn(), strict=True))
            total = total + loss.detach()
        self.world.add_gradients(self._parameters, total)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if not gradients:
            raise InputError(
                f"the loss of {type(self.model).__name__} depends on none of its trained parameters; expected "
                f"{self.settings.loss_on}(prompts) to use them, without detach or no_grad"
            )
        norm = nn.utils.get_total_norm(gradients)
        if self.settings.clip_norm is not None:
            nn.utils.clip_grads_with_norm_(self._parameters, self.settings.clip_norm, norm)
        return total, norm

    def update(self, rate: float) -> None:
        """One step of the optimiser with the learning rate ``rate``."""
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()

    def state(self) -> dict[str, Tensor]:
        """``{"exp_avg/<parameter>": ...}``: all that the optimiser remembers."""
        stored = self._optimiser.state_dict()["state"]
        return {f"{key}/{self.names[index]}": value for index, entry in stored.items() for key, value in entry.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        positions = {name: index for index, name in enumerate(self.names)}
        entries: dict[int, dict[str, Tensor]] = {}
        for label, value in state.items():
            key, _, name = label.partition("/")
            # A copy of its own: torch takes the given tensor where it needs no conversion, and a file's are unaligned.
            entries.setdefault(positions[name], {})[key] = value.clone()
        whole = self._optimiser.state_dict()
        self._optimiser.load_state_dict({"state": entries, "param_groups": whole["param_groups"]})

    def _seed(self, number: int) -> None:
        """Dropout and the like draw from torch's own generators: a function of (stream, part of the data) too."""
        seed = int(self._seeds.numpy(number).integers(2**63))
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        elif self.device.type == "mps":
            torch.mps.manual_seed(seed)

    def _drawn(self) -> list[Tensor]:
        """The states of those generators."""
        states = [torch.default_generator.get_state()]
        if self.device.type == "cuda":
            states.append(torch.cuda.get_rng_state(self.device))
        elif self.device.type == "mps":
            states.append(torch.mps.get_rng_state())
        return states


def _optimiser(model: nn.Module, settings: TrainSettings) -> tuple[torch.optim.Optimizer, list[str]]:
    """The optimiser and the names of its parameters in its order."""
    grouping = getattr(model, "parameter_groups", None)
    groups = grouping(settings.weight_decay) if callable(grouping) else parameter_groups(model, settings.weight_decay)
    groups = [group for group in groups if group["params"]]
    if not groups:
        raise InputError(f"{type(model).__name__} has no parameter that requires a gradient; expected one to train")
    kind = torch.optim.Adam if settings.optimiser == "adam" else torch.optim.AdamW
    # The fused form is one pass over all weights: on a CPU a third of the time of the plain one.
    optimiser = kind(groups, lr=settings.learning_rate, betas=settings.betas, eps=settings.epsilon, fused=True)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return optimiser, [names[id(p)] for group in optimiser.param_groups for p in group["params"]]
