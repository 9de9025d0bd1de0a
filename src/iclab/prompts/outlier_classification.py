"""Two-class prompts over orthogonal patterns, some of whose context examples are outliers.

Reference: arXiv 2510.00399, section on the data model. What the paper leaves open (the length of an outlier pattern,
the set of training tasks, how a test outlier is chosen among several) is an argument here.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.prompts.arguments import integer, one_value, positive
from iclab.prompts.distribution import CHUNK
from iclab.prompts.outlier_rules import LabelRule
from iclab.prompts.outlier_vectors import Coefficients, coefficient_rows, combined, random_orthogonal, smallest
from iclab.prompts.stream import Stream
from iclab.prompts.task_pairs import TaskChoice
from iclab.prompts.two_class import Draws, TwoClassDistribution, index_below
from iclab.prompts.values import check_choice, check_real
from iclab.prompts.vector_classification import VectorClassification

_MAX_DIM = 10_000


class OutlierClassification(TwoClassDistribution):
    """Prompts of two-class tasks over orthogonal patterns, some of whose context examples are outliers.

    There are M1 relevant patterns ``mu``, M2 irrelevant ``nu`` and V outlier patterns ``v``, columns of one random
    orthogonal matrix. A task is an ordered pair ``(mu_a, mu_b)``; an input is

        x = mu + kappa nu + [outlier] kappa_a v' + noise,     label +1 for mu = mu_a, -1 for mu = mu_b

    with ``mu`` one of the two with probability 1/2, ``nu`` uniform on the irrelevant patterns and ``kappa`` on
    ``(-irrelevant_range, irrelevant_range)``. Queries are never outliers.

    Args:
        ambient_dim: d.
        relevant, irrelevant, outliers: M1 >= 2, M2 >= 0 and V >= 1, together at most d.
        norm: length of the relevant and irrelevant patterns (the paper's beta).
        outlier_norm: length of the outlier patterns; ``None`` for ``norm``.
        tasks: ``"all"``, ``"cycle"``, a number of balanced random tasks, or a list of pairs: see `task_pairs`.
        outlier_fraction: share of outliers in the context (p_a in training, alpha in testing).
        outlier_size: kappa_a.
        irrelevant_range: K.
        label_rule, target_label, placement, sampling: see `OutlierRules`.
        coefficients: ``None`` for ``v'`` uniform on the V patterns (the training distribution), or a list of vectors
            ``(lambda_1, ..., lambda_V)`` of which each outlier takes one: ``v' = sum_i lambda_i v_i + u``.
        orthogonal: length of ``u``, whose direction is new in each example, uniform among those orthogonal to all
            patterns. Above 0 it needs ``M1 + M2 + V < d``.
        input_noise: standard deviation of Gaussian noise on each coordinate of each input, queries included.
        seed: of the patterns and of a random set of tasks.

    Attributes:
        relevant_patterns, irrelevant_patterns, outlier_patterns: ``(M1, d)``, ``(M2, d)``, ``(V, d)`` float64.
        outlier_directions: ``(K, d)`` float64: the values of ``v'`` without ``u``, of which an outlier takes one.
        task_pairs: list of pairs ``(a, b)``.
        rules: the `OutlierRules`.

    Raises:
        InputError: for more patterns than dimensions, fewer than two relevant ones, a fraction outside [0, 1], unknown
            rules, coefficients of another length than V, or numbers out of range.
    """

    def __init__(
        self,
        ambient_dim: int = 30,
        relevant: int = 6,
        irrelevant: int = 10,
        outliers: int = 3,
        *,
        norm: float = 3.0,
        outlier_norm: float | None = None,
        tasks: TaskChoice = "all",
        outlier_fraction: float = 0.0,
        outlier_size: float = 2.0,
        irrelevant_range: float = 0.5,
        label_rule: str | LabelRule = "random",
        target_label: int = 1,
        coefficients: Coefficients | None = None,
        orthogonal: float = 0.0,
        placement: str = "random",
        sampling: str = "iid",
        input_noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.ambient_dim = integer("ambient_dim", ambient_dim, 1, _MAX_DIM)
        relevant = integer("relevant", relevant, 2)
        irrelevant = integer("irrelevant", irrelevant, 0)
        outliers = integer("outliers", outliers, 1)
        total = relevant + irrelevant + outliers
        if total > self.ambient_dim:
            raise InputError(
                f"{relevant} relevant, {irrelevant} irrelevant and {outliers} outlier patterns are {total}; "
                f"expected at most ambient_dim = {self.ambient_dim}, for they are orthogonal to each other"
            )
        norm = positive("norm", norm)
        outlier_norm = norm if outlier_norm is None else positive("outlier_norm", outlier_norm)
        self._stream = Stream(one_value("seed", seed)).child("outlier classification")
        columns = random_orthogonal(self.ambient_dim, self.ambient_dim, self._stream.child("patterns"))
        self.relevant_patterns = norm * columns[:relevant]
        self.irrelevant_patterns = norm * columns[relevant : relevant + irrelevant]
        self.outlier_patterns = outlier_norm * columns[relevant + irrelevant : total]
        self._complement = columns[total:]
        self._fixed = {
            "ambient_dim": self.ambient_dim,
            "relevant": relevant,
            "irrelevant": irrelevant,
            "outliers": outliers,
            "norm": norm,
            "outlier_norm": outlier_norm,
            "seed": self._stream.seed,
        }
        options = {
            "tasks": tasks,
            "outlier_fraction": outlier_fraction,
            "outlier_size": outlier_size,
            "irrelevant_range": irrelevant_range,
            "label_rule": label_rule,
            "target_label": target_label,
            "coefficients": coefficients,
            "orthogonal": orthogonal,
            "placement": placement,
            "sampling": sampling,
            "input_noise": input_noise,
        }
        self._set(options)

    def _set(self, options: dict[str, Any]) -> None:
        rows = coefficient_rows(options["coefficients"], len(self.outlier_patterns))
        self._choose(options | {"coefficients": rows}, len(self.relevant_patterns), self._stream)
        self.irrelevant_range = check_real("irrelevant_range", self._options["irrelevant_range"], 0)
        self.orthogonal = check_real("orthogonal", self._options["orthogonal"], 0)
        if self.orthogonal and not len(self._complement):
            raise InputError(
                f"orthogonal is {self.orthogonal} and the patterns fill all {self.ambient_dim} dimensions; "
                "expected fewer patterns, a larger ambient_dim or orthogonal=0"
            )
        self.outlier_directions = combined(rows, self.outlier_patterns)
        self.num_kinds = len(self.outlier_directions)
        norm, outlier = self._fixed["norm"], smallest(self.outlier_directions)
        self._hold(
            {
                "norm": norm,
                "outlier_norm": self._fixed["outlier_norm"],
                "irrelevant_range": self.irrelevant_range,
                "irrelevant_range times norm": self.irrelevant_range * norm,
                "orthogonal": self.orthogonal,
                "an outlier of the coefficients": outlier,
                "outlier_size times an outlier": self.outlier_size * outlier,
                "outlier_size times orthogonal": self.outlier_size * self.orthogonal,
            }
        )

    @staticmethod
    def from_vectors(vectors: object, classes: object, **options: Any) -> VectorClassification:
        """Make the same distribution over a user's own vectors.

        Args:
            vectors, classes: as in `VectorClassification`.
            options: all other arguments of `VectorClassification`.

        Raises:
            InputError: as `VectorClassification`; also for arguments that it lacks.
        """
        known = list(inspect.signature(VectorClassification).parameters)
        for name in options:
            check_choice("an argument of from_vectors", name, known)
        return VectorClassification(vectors, classes, **options)

    def _extra(self, generator: torch.Generator, num_examples: int) -> Tensor | None:
        """``(8 N, d)`` vectors of length ``orthogonal``, uniform among those orthogonal to all patterns."""
        if not self.orthogonal:
            return None
        shape = (CHUNK * num_examples, len(self._complement))
        latent = torch.randn(shape, generator=generator, dtype=torch.float64)
        return latent.mul_(self.orthogonal / latent.norm(dim=1, keepdim=True)) @ self._complement

    def _inputs(self, draws: Draws, out: Tensor) -> None:
        flat, num_examples = out.view(-1, self.ambient_dim), draws.outliers.shape[1]
        torch.index_select(self.relevant_patterns.to(out.dtype), 0, draws.patterns.view(-1), out=flat)
        if len(self.irrelevant_patterns) and self.irrelevant_range:
            which = index_below(draws.sources, len(self.irrelevant_patterns))
            sizes = draws.sizes.mul(2).sub_(1).mul_(self.irrelevant_range).to(out.dtype)
            irrelevant = self.irrelevant_patterns.to(out.dtype).index_select(0, which.view(-1))
            flat.addcmul_(irrelevant, sizes.view(-1, 1))
        if not self.rules.fraction or not num_examples:
            return
        sizes = draws.outliers.to(out.dtype).mul_(self.outlier_size)
        added = self.outlier_directions.to(out.dtype).index_select(0, draws.kinds.reshape(-1)).view(*sizes.shape, -1)
        if draws.extras:
            added += torch.stack(draws.extras).view(added.shape)
        out[:, :num_examples].addcmul_(added, sizes[:, :, None])
