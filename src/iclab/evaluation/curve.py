"""Error curves: error against the number of in-context examples, on the same prompts for every learner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError, check_integer, check_positive
from iclab.estimators.base import Learner
from iclab.evaluation.intervals import Interval, interval
from iclab.evaluation.measurement import Measurement
from iclab.prompts import Prompts
from iclab.prompts.arguments import described
from iclab.prompts.batch import check_finite

METRICS = ("squared_error", "absolute_error", "noisy_squared_error", "noisy_absolute_error", "zero_one_error")
"""Against the clean target, and against the noisy label (whose floor is the noise itself); of labels +1 and -1 also the
share of queries whose clean label has not the sign of the prediction."""


@dataclass(frozen=True)
class Curve:
    """A metric of one learner against the number of examples.

    Attributes:
        learner, metric: what was measured.
        num_examples: the context lengths.
        samples: one ``(len(num_examples), P)`` array a seed: the error on each prompt, averaged over its queries.
    """

    learner: str
    metric: str
    num_examples: tuple[int, ...]
    samples: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        shapes = [s.shape for s in self.samples]
        if not shapes or any(len(s) != 2 or s[0] != len(self.num_examples) or s[1] < 1 for s in shapes):
            raise InputError(
                f"the samples of a curve have shapes {shapes}; expected ({len(self.num_examples)}, prompts) for each "
                "seed"
            )

    @property
    def values(self) -> np.ndarray:
        """``(len(num_examples),)``: mean over seeds of the mean over prompts; not finite where a sample is not."""
        return np.mean([s.mean(1) for s in self.samples], axis=0)

    def intervals(self, level: float = 0.95) -> list[Interval]:
        """Return the interval at each context length; see `iclab.evaluation.interval`."""
        return [interval([s[None, i] for s in self.samples], level=level) for i in range(len(self.num_examples))]

    def __sub__(self, other: Curve) -> Curve:
        """The paired difference: the same prompts, subtracted one by one, so that its interval is that of the gap."""
        shapes, others = [s.shape for s in self.samples], [s.shape for s in other.samples]
        if (self.metric, self.num_examples, shapes) != (other.metric, other.num_examples, others):
            raise InputError(
                f"the curves of {self.learner} and {other.learner} are not paired; "
                "expected the same metric, prompts and lengths"
            )
        samples = tuple(a - b for a, b in zip(self.samples, other.samples, strict=True))
        return Curve(f"{self.learner} - {other.learner}", self.metric, self.num_examples, samples)

    @staticmethod
    def join(curves: Sequence[Curve]) -> Curve:
        """Join the seeds of several curves of the same learner, metric and lengths into one curve.

        Raises:
            InputError: for no curves, or curves that differ in these.
        """
        if not curves:
            raise InputError("no curves to join; expected at least one")
        if len({(c.learner, c.metric, c.num_examples) for c in curves}) > 1:
            raise InputError("the curves differ in learner, metric or context lengths; expected one kind for all seeds")
        return Curve(
            curves[0].learner, curves[0].metric, curves[0].num_examples, tuple(s for c in curves for s in c.samples)
        )

    def measurements(self) -> list[Measurement]:
        """Return one `Measurement` a context length.

        Raises:
            InputError: for a curve of several seeds.
        """
        if len(self.samples) != 1:
            raise InputError(f"the curve joins {len(self.samples)} seeds; expected one")
        return [
            Measurement(self.learner, self.metric, row[None], num_examples=n)
            for n, row in zip(self.num_examples, self.samples[0], strict=True)
        ]


def error_curve(
    learners: Mapping[str, Learner] | Sequence[Learner],
    prompts: Prompts | Iterable[Prompts],
    num_examples: Sequence[int],
    *,
    label_variance: float = 1.0,
    signs: bool = False,
) -> dict[str, dict[str, Curve]]:
    """Measure learners on the same prompts at several context lengths.

    Args:
        learners: by the name to use in results, or a sequence that brings its own names.
        prompts: a batch, or batches that are measured one after another (bounded memory). A shorter context is the
            beginning of the longer one, and the queries are the same. Learners receive copies without the answers: no
            labels of queries, no targets, no directions.
        num_examples: the context lengths, each at most that of the prompts.
        label_variance: squared errors are divided by it, absolute errors by its square root. State it with the result.
        signs: whether labels are +1 and -1, so that predictions are also scored by their sign (zero is an error).

    Returns:
        ``result[metric][learner]`` as a `Curve` of one seed. Metrics against the clean target are left out where the
        prompts carry none; prompts with unlabelled queries cannot be scored at all.

    Raises:
        InputError: for no learners, lengths or prompts, lengths that repeat or exceed the prompts, queries that are
            missing or unlabelled, batches of which only some have clean targets, and as `predict_blind`.
    """
    by_name = learners if isinstance(learners, Mapping) else _named(learners)
    for name, learner in by_name.items():
        if not _predicts(learner):
            raise InputError(
                f"the learner {name!r} is {described(learner)}; expected an object with a method predict(prompts)"
            )
    if not by_name:
        raise InputError("no learners to measure; expected at least one")
    check_positive("label_variance", label_variance)
    if not isinstance(num_examples, Iterable):
        raise InputError(f"num_examples is {num_examples!r}; expected a list of context lengths")
    lengths = tuple(check_integer("num_examples", n, 0) for n in num_examples)
    if len(set(lengths)) < len(lengths):
        raise InputError(f"num_examples are {list(lengths)}; expected distinct lengths")
    if not lengths:
        raise InputError("num_examples is empty; expected at least one context length")
    rows: dict[str, dict[str, list[np.ndarray]]] = {}
    for batch in [prompts] if isinstance(prompts, Prompts) else _batches(prompts):
        _check_scorable(batch, lengths)
        for name, learner in by_name.items():
            predictions = predict_blind(name, learner, batch, lengths)
            for metric, errors in _errors(predictions, batch, label_variance, signs).items():
                rows.setdefault(metric, {}).setdefault(name, []).append(errors)
    if not rows:
        raise InputError("no prompts to measure on; expected at least one batch")
    if len({sum(part.shape[1] for part in parts) for by_learner in rows.values() for parts in by_learner.values()}) > 1:
        raise InputError("some batches have clean targets and others have none; measure them apart")
    return {
        metric: {name: Curve(name, metric, lengths, (np.concatenate(parts, 1),)) for name, parts in by_learner.items()}
        for metric, by_learner in rows.items()
    }


def predict_at(learner: Learner, prompts: Prompts, num_examples: Sequence[int]) -> Tensor:
    """Predict at the queries from several prefixes, by the learner's own fast way where it has one.

    Args:
        learner: with ``predict(prompts)``, or with ``predict_at(prompts, num_examples)`` besides.
        prompts: B prompts with Q queries.
        num_examples: lengths of the prefixes.

    Returns:
        ``(len(num_examples), B, Q)``.
    """
    own = getattr(learner, "predict_at", None)
    if own is not None:
        return own(prompts, num_examples)
    return torch.stack([torch.as_tensor(learner.predict(prompts.prefix(n))) for n in num_examples])


def predict_blind(name: str, learner: Learner, prompts: Prompts, num_examples: Sequence[int]) -> Tensor:
    """Ask a learner for predictions from several prefixes, without showing it the answers.

    The learner receives a copy without the answers: labels of queries are NaN; targets, directions and the latents of a
    family are gone. Being a copy, what it does to it reaches no other learner.

    Args:
        name: of the learner in messages.
        learner: as in `predict_at`.
        prompts: B prompts with Q queries.
        num_examples: lengths of the prefixes.

    Returns:
        ``(len(num_examples), B, Q)``, float64 on the CPU.

    Raises:
        InputError: for predictions of another shape, or that are not finite, naming the learner.
    """
    labels = prompts.labels.clone()
    labels[:, prompts.num_examples :] = float("nan")
    copy = Prompts(prompts.inputs.clone(), labels, prompts.num_examples, trusted=True)
    return _checked(name, predict_at(learner, copy, num_examples), prompts, num_examples)


def _checked(name: str, predictions: object, prompts: Prompts, lengths: Sequence[int]) -> Tensor:
    """Predictions as a float64 tensor on the CPU, after checking their shape and that they are finite."""
    tensor = torch.as_tensor(predictions).detach().double().cpu()
    expected = (len(lengths), prompts.batch_size, prompts.num_queries)
    if tuple(tensor.shape) != expected:
        raise InputError(
            f"{name} predicts an array of shape {tuple(tensor.shape)}; expected {expected} (lengths, prompts, queries)"
        )
    return check_finite(f"a prediction of {name}", tensor)


def _errors(predictions: Tensor, prompts: Prompts, label_variance: float, signs: bool) -> dict[str, np.ndarray]:
    """Per metric ``(lengths, B)``, averaged over queries."""
    truths = {"noisy_": prompts.query_labels.double().cpu()}
    if prompts.targets is not None:
        truths[""] = prompts.query_targets.double().cpu()
    errors = {}
    for prefix, truth in truths.items():
        gap = predictions - truth
        errors[f"{prefix}squared_error"] = (gap**2).mean(-1).numpy() / label_variance
        errors[f"{prefix}absolute_error"] = gap.abs().mean(-1).numpy() / label_variance**0.5
    if signs:
        errors["zero_one_error"] = sign_errors(predictions, truth).numpy()
    return {metric: errors[metric] for metric in METRICS if metric in errors}


def sign_errors(predictions: Tensor, targets: Tensor) -> Tensor:
    """Compute the share of the queries whose label the sign of the prediction misses.

    An output of zero is no answer, hence an error.

    Args:
        predictions: ``(..., B, Q)``.
        targets: labels +1 or -1, of the same shape or one that broadcasts.

    Returns:
        ``(..., B)``, float64.
    """
    return (predictions * targets <= 0).double().mean(-1)


def _batches(prompts: Iterable[Prompts]) -> Iterable[Prompts]:
    listed = prompts if isinstance(prompts, Iterable) and not isinstance(prompts, str) else [prompts]
    for batch in listed:
        if not isinstance(batch, Prompts):
            raise InputError(
                f"prompts are of type {type(batch).__name__}; expected Prompts, or batches of them (Prompts."
                "from_arrays makes some from your own data)"
            )
        yield batch


def _named(learners: Sequence[Learner]) -> dict[str, Learner]:
    if not isinstance(learners, Sequence) or not all(map(_predicts, learners)):
        raise InputError(f"learners is {learners!r}; expected a mapping from names to learners, or a list of learners")
    names = [learner.name for learner in learners]
    if len(set(names)) != len(names):
        raise InputError(f"two learners have the same name in {names}; pass a mapping of distinct names")
    return dict(zip(names, learners, strict=True))


def _predicts(value: object) -> bool:
    return callable(getattr(value, "predict", None)) and not isinstance(value, type)


def _check_scorable(prompts: Prompts, lengths: Sequence[int]) -> None:
    if max(lengths) > prompts.num_examples:
        raise InputError(
            f"num_examples asks for {max(lengths)} and the prompts have {prompts.num_examples}; draw longer prompts"
        )
    if prompts.batch_size == 0:
        raise InputError("a batch has no prompts to measure on; expected at least one")
    if prompts.num_queries == 0:
        raise InputError("the prompts have no queries to predict at; draw some with num_queries, or give x_query")
    if bool(torch.isnan(prompts.query_labels).any()):
        raise InputError("the queries have no labels to score against; give y_query to Prompts.from_arrays")
