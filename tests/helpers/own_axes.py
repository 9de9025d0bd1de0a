"""A prompt family, an estimator and a trained learner of a user's own, as experiments name them."""

import torch

from iclab.errors import InputError
from iclab.estimators import LeastSquares
from iclab.prompts import CHUNK, PromptDistribution, Prompts


class Regression(PromptDistribution):
    """``y = <w, x>`` with w uniform on the sphere of the first ``active`` coordinates: label variance 1."""

    def __init__(self, ambient_dim=4, active=2, offset=0.0):
        if active > ambient_dim:
            raise InputError(f"active is {active}; expected at most {ambient_dim}")
        self.ambient_dim, self.active, self.offset = ambient_dim, active, offset
        self.label_support = tuple(range(active))

    def draw_chunks(self, generators, num_examples, num_queries, dtype, buffer=None):
        (generator,) = generators
        weights = torch.randn(CHUNK, self.active, generator=generator, dtype=torch.float64)
        weights = (weights / weights.norm(dim=1, keepdim=True)).to(dtype)
        inputs = torch.randn(CHUNK, num_examples + num_queries, self.ambient_dim, generator=generator, dtype=dtype)
        targets = (inputs[..., : self.active] @ weights[..., None])[..., 0] + self.offset
        return Prompts(inputs, targets.clone(), num_examples, targets)


class Plain(Regression):
    """Says nothing of its labels."""

    def __init__(self, ambient_dim=4):
        super().__init__(ambient_dim)
        self.label_support = None


class Signs(Regression):
    """The sign of a linear function."""

    binary_labels = True
    label_variance = 1.0

    def draw_chunks(self, generators, num_examples, num_queries, dtype, buffer=None):
        drawn = super().draw_chunks(generators, num_examples, num_queries, dtype)
        signs = drawn.labels.sign()
        return Prompts(drawn.inputs, signs.clone(), num_examples, signs)


class Listed(Regression):
    """Says its scalars wrongly."""

    def scalars(self):  # type: ignore[override]
        return ["active"]


class Ones:
    """Predicts ``value``."""

    name = "ones"

    def __init__(self, value=1.0):
        self.value = value

    def predict(self, prompts):
        return torch.full(prompts.queries.shape[:2], self.value, dtype=prompts.inputs.dtype)


class Shrunk:
    """Least squares times a number that is fitted to prompts."""

    name = "shrunk"
    factor = 1.0

    def pretrain(self, prompts, stream):
        batch = prompts.sample(stream, 64, 8, 1)
        found = LeastSquares().predict(batch)
        self.factor = float((found * batch.query_labels).sum() / (found**2).sum())
        self.start = float(torch.rand(()))

    def predict(self, prompts):
        return self.factor * LeastSquares().predict(prompts)


def broken():
    raise RuntimeError("no such thing")


NOT_CALLABLE = 3
