"""A model that trains in milliseconds, and the settings that the tests of `iclab.pretraining.train` share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from iclab.pretraining import Curriculum, Ramp, TrainRecord, train
from iclab.prompts import Prompts, SingleIndex, Stream

DIM = 4


class Correlation(nn.Module):
    """``f = <W (1/k) sum_{j<k} y_j x_j, x> + c``: the linear part of a prompt, with one learned matrix."""

    def __init__(
        self, input_dim: int = DIM, max_examples: int | None = None, dropout: float = 0.0, dtype: Any = torch.float32
    ) -> None:
        super().__init__()
        self.input_dim, self.max_examples = input_dim, max_examples
        self.read = nn.Linear(input_dim, input_dim, dtype=dtype)
        self.dropout = nn.Dropout(dropout)

    def settings(self) -> dict[str, Any]:
        return {"input_dim": self.input_dim, "dropout": self.dropout.p}

    def prefixes(self, prompts: Prompts) -> Tensor:
        sums = (prompts.example_labels[..., None] * prompts.examples).cumsum(1)
        before = torch.cat([torch.zeros_like(sums[:, :1]), sums[:, :-1]], 1)
        counts = torch.arange(prompts.num_examples, device=sums.device).clamp(min=1)[:, None]
        return (self.dropout(self.read(before / counts)) * prompts.examples).sum(-1)

    def queries(self, prompts: Prompts) -> Tensor:
        mean = (prompts.example_labels[..., None] * prompts.examples).mean(1)
        return (self.dropout(self.read(mean))[:, None] * prompts.queries).sum(-1)


def build(seed: int = 0, **options: Any) -> Correlation:
    """A model with the initial weights of a seed."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return Correlation(**options)


def distribution(**options: Any) -> SingleIndex:
    """Noisy linear regression in context."""
    values: dict[str, Any] = {"link": "he1", "noise": 0.1, **options}
    return SingleIndex(DIM, 3, **values)


CURRICULUM = Curriculum(
    num_examples=Ramp(2, 6, 2, 5),
    ambient_dim=Ramp(2, DIM, 1, 7),
    intrinsic_dim=Ramp(1, 3, 1, 8),
    noise=Ramp(0, 0.1, 0.05, 9),
)
"""Changes at steps 5, 7, 8, 9, 10, 14, 16, 18."""

SHORT: dict[str, Any] = {
    "stream": Stream(3),
    "num_examples": 6,
    "steps": 24,
    "batch_size": 16,
    "learning_rate": 0.02,
}
EVERYTHING: dict[str, Any] = {
    **SHORT,
    "optimiser": "adamw",
    "weight_decay": 0.01,
    "warmup_steps": 4,
    "schedule": "cosine",
    "clip_norm": 0.5,
    "curriculum": CURRICULUM,
    "average": 0.9,
    "evaluate_every": 6,
    "evaluation_prompts": 16,
    "log_every": 4,
    "checkpoint_every": 3,
}


def run(model: nn.Module | None = None, **changes: Any) -> tuple[Any, TrainRecord]:
    """Train a fresh model on the shared settings with some of them changed."""
    prompts = changes.pop("prompts", None) or distribution()
    return train(model or build(), prompts, **{**SHORT, **changes})


def weights(model: nn.Module) -> Tensor:
    """All weights as one vector."""
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def timeless(folder: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl`` without the one thing that differs from run to run."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
