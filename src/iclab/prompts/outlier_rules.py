"""Which context examples are outliers, and which labels they show.

Reference: arXiv 2510.00399, section on the data model; the placements are those of its experiments.
Shapes: B prompts, N context examples.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.prompts.arguments import one_line, one_value
from iclab.prompts.distribution import CHUNK
from iclab.prompts.outlier_prompts import sign_of
from iclab.prompts.values import check_choice, check_real

LABEL_RULES = ("random", "flipped", "target")
PLACEMENTS = ("random", "farthest", "closest")
SAMPLINGS = ("iid", "fixed_count")

LabelRule = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``rule(targets, kinds, uniforms) -> labels``: ``(8, N)`` clean labels in {+1, -1}, indices of the outliers that the
examples would carry, and numbers uniform on (0, 1), all independent; to labels in {+1, -1}, used at outliers alone. The
arguments are copies, which a rule may change in place."""


@dataclass(frozen=True)
class OutlierRules:
    """Which context examples are outliers, and which labels they show.

    Attributes:
        fraction: share of outliers among the context examples, in [0, 1].
        label_rule: of an outlier: ``random`` (+1 or -1 with probability 1/2), ``flipped`` (the wrong one), ``target``
            (``target_label``), or a `LabelRule`. A function must draw no numbers of its own.
        target_label: +1 or -1.
        placement: ``random``, or all outliers at the beginning of the context (``farthest`` from the query, which comes
            last) or at its end (``closest``).
        sampling: ``iid`` (each example with probability ``fraction``) or ``fixed_count`` (see `count`).

    Raises:
        InputError: for a fraction outside [0, 1], another label, or an unknown rule.
    """

    fraction: float = 0.0
    label_rule: str | LabelRule = "random"
    target_label: int = 1
    placement: str = "random"
    sampling: str = "iid"

    def __post_init__(self) -> None:
        self._keep("fraction", check_real("outlier_fraction", one_value("outlier_fraction", self.fraction), 0, 1))
        target = one_value("target_label", self.target_label)
        if not isinstance(target, Real) or isinstance(target, bool) or target not in (1, -1):
            raise InputError(f"target_label is {target!r}; expected 1 or -1")
        self._keep("target_label", int(target))
        choices = {"placement": PLACEMENTS, "sampling": SAMPLINGS}
        if callable(self.label_rule):
            _check_arguments(self.label_rule)
        else:
            choices["label_rule"] = LABEL_RULES
        for name, allowed in choices.items():
            self._keep(name, check_choice(name, one_value(name, getattr(self, name)), allowed))

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def count(self, num_examples: int) -> int:
        """Return the outliers of a context under ``fixed_count``: ``fraction * num_examples``, rounded, halves up."""
        return int(self.fraction * num_examples + 0.5)

    def outliers(self, uniforms: Tensor) -> Tensor:
        """Choose the outliers of each prompt.

        From the same numbers a larger fraction under the same sampling and placement adds outliers and removes none.

        Args:
            uniforms: ``(B, N)`` numbers uniform on (0, 1).

        Returns:
            ``(B, N)`` bool, true for outliers.
        """
        num_examples = uniforms.shape[1]
        if self.sampling == "iid":
            chosen = uniforms < self.fraction
            if self.placement == "random":
                return chosen
            counts = chosen.sum(1, keepdim=True)
        else:
            count = self.count(num_examples)
            if self.placement == "random":
                chosen = torch.zeros(uniforms.shape, dtype=torch.bool)
                return chosen.scatter_(1, uniforms.argsort(1)[:, :count], True)
            counts = torch.full((len(uniforms), 1), count)
        positions = torch.arange(num_examples)
        return positions < counts if self.placement == "farthest" else positions >= num_examples - counts

    def labels(self, targets: Tensor, kinds: Tensor, uniforms: Tensor) -> Tensor:
        """Return the labels ``(B, N)`` that the examples would show as outliers.

        Args:
            targets: ``(B, N)``, the clean labels.
            kinds: ``(B, N)``, indices of the outliers that the examples would carry.
            uniforms: ``(B, N)``, numbers uniform on (0, 1), for the rule ``random``.
        """
        if callable(self.label_rule):
            return _asked(self.label_rule, targets, kinds, uniforms)
        if self.label_rule == "random":
            return sign_of(uniforms < 0.5, targets.dtype)
        if self.label_rule == "flipped":
            return -targets
        return torch.full_like(targets, self.target_label)


def _check_arguments(rule: LabelRule) -> None:
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):  # some built-in functions do not tell theirs
        return
    try:
        signature.bind(None, None, None)
    except TypeError:
        wanted = "expected a function of (targets, kinds, uniforms)"
        raise InputError(f"label_rule takes the arguments {one_line(str(signature))}; {wanted}") from None


def _asked(rule: LabelRule, targets: Tensor, kinds: Tensor, uniforms: Tensor) -> Tensor:
    """The labels of a user's rule, which sees one chunk of prompts at a time, so that batches cannot change them."""
    parts = zip(targets.split(CHUNK), kinds.split(CHUNK), uniforms.split(CHUNK), strict=True)
    labels = [_checked(rule(*(tensor.clone() for tensor in part)), part[0]) for part in parts]
    return torch.cat(labels)


def _checked(labels: object, targets: Tensor) -> Tensor:
    if not isinstance(labels, Tensor) or labels.shape != targets.shape:
        found = tuple(labels.shape) if isinstance(labels, Tensor) else type(labels).__name__
        raise InputError(f"label_rule returned {found}; expected a tensor of shape {tuple(targets.shape)}")
    if labels.is_complex() or not bool(((labels == 1) | (labels == -1)).all()):
        raise InputError("label_rule returned a label other than +1 and -1; expected these two alone")
    return labels.to(targets.dtype, copy=True)  # a rule may fill and return the same tensor at each call
