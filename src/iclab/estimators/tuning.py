"""`tune`: the best of a grid of estimators on prompts set aside for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.estimators.estimator import Estimator, check_sizes
from iclab.prompts import Prompts
from iclab.prompts.arguments import described
from iclab.prompts.batch import check_finite, check_prompts


@dataclass(frozen=True)
class TuningRecord:
    """What a tuned estimator was tuned on.

    Attributes:
        names: of the estimators of the grid.
        num_examples: context lengths, ascending.
        errors: ``errors[i][j]``, mean squared error of estimator i against the noisy query labels at length j.
        num_prompts: number of tuning prompts.
        num_queries: queries of each.
        source: where the tuning prompts came from, in the caller's words.
    """

    names: tuple[str, ...]
    num_examples: tuple[int, ...]
    errors: tuple[tuple[float, ...], ...]
    num_prompts: int
    num_queries: int
    source: str

    def describe(self) -> str:
        """Return one line for captions and logs."""
        sizes = ", ".join(map(str, self.num_examples))
        origin = f" ({self.source})" if self.source else ""
        return (
            f"best of {len(self.names)} settings on {self.num_prompts} tuning prompts{origin} "
            f"with {self.num_queries} queries each, at N = {sizes}"
        )

    def rows(self) -> list[dict[str, str | int | float]]:
        """Return tidy rows: estimator, num_examples, squared_error."""
        return [
            {"estimator": name, "num_examples": count, "squared_error": error}
            for name, line in zip(self.names, self.errors, strict=True)
            for count, error in zip(self.num_examples, line, strict=True)
        ]


class Tuned:
    """One estimator for each tuned context length. A context of another length uses that of the nearest, in ratio.

    "Nearest" minimises ``max(n / m, m / n)`` over the tuned lengths ``m``, the shorter one on a tie. With no examples
    the shortest is used. `predict_prefixes` dispatches column by column in the same way.

    Attributes:
        estimators: the winner at each of ``record.num_examples``.
        record: the grid, its errors and the tuning prompts.
    """

    def __init__(self, estimators: Sequence[Estimator], record: TuningRecord) -> None:
        if len(estimators) != len(record.num_examples):
            raise InputError(
                f"{len(estimators)} estimators for {len(record.num_examples)} lengths; expected one a length"
            )
        self.estimators = tuple(estimators)
        self.record = record

    @property
    def name(self) -> str:
        """The winner's name if it is one, else each with its length; and how many prompts it was tuned on."""
        tuned = f"tuned on {self.record.num_prompts} prompts"
        names = [estimator.name for estimator in self.estimators]
        if len(set(names)) == 1:
            return f"{names[0]}, {tuned}"
        parts = (f"N={count}: {name}" for count, name in zip(self.record.num_examples, names, strict=True))
        return f"{'; '.join(parts)}; {tuned}"

    def estimator_for(self, num_examples: int) -> Estimator:
        """Return the estimator used for a context of this length."""
        lengths = self.record.num_examples
        count = max(num_examples, 1)
        nearest = min(range(len(lengths)), key=lambda i: (max(lengths[i] / count, count / lengths[i]), i))
        return self.estimators[nearest]

    def predict(self, prompts: Prompts) -> Tensor:
        """Predict at the queries from all N examples, ``(B, Q)``."""
        return self.estimator_for(check_prompts(prompts).num_examples).predict(prompts)

    def predict_at(self, prompts: Prompts, num_examples: Sequence[int]) -> Tensor:
        """Predict at the queries from several prefixes, each with the estimator for its length.

        Args:
            prompts: B prompts with Q queries.
            num_examples: lengths of the prefixes.

        Returns:
            ``(len(num_examples), B, Q)``, in the dtype of the prompts.

        Raises:
            InputError: as `Estimator.predict_at`.
        """
        sizes = check_sizes(num_examples, check_prompts(prompts).num_examples)
        result = prompts.inputs.new_zeros(len(sizes), prompts.batch_size, prompts.num_queries)
        for estimator, indices in self._groups(sizes):
            result[indices] = estimator.predict_at(prompts, [sizes[index] for index in indices])
        return result

    def predict_prefixes(self, prompts: Prompts) -> Tensor:
        """Predict each example from the examples before it.

        Returns:
            ``(B, N)``, where column k predicts example k from the k before it, by the estimator for k examples.
        """
        check_prompts(prompts)
        result = prompts.inputs.new_zeros(prompts.batch_size, prompts.num_examples)
        for estimator, columns in self._groups(range(prompts.num_examples)):
            found = estimator.predict_prefixes(prompts.prefix(columns[-1] + 1))
            result[:, columns] = found[:, columns]
        return result

    def _groups(self, sizes: Sequence[int]) -> list[tuple[Estimator, list[int]]]:
        """Each estimator that is used, with the indices in ``sizes`` where it is."""
        groups: dict[int, tuple[Estimator, list[int]]] = {}
        for index, size in enumerate(sizes):
            estimator = self.estimator_for(size)
            groups.setdefault(id(estimator), (estimator, []))[1].append(index)
        return list(groups.values())

    def __repr__(self) -> str:
        return f"Tuned({self.name!r})"


def tune(
    grid: Sequence[Estimator],
    prompts: Prompts,
    num_examples: Sequence[int] | None = None,
    *,
    source: str = "",
) -> Tuned:
    """Choose for each context length the estimator of the grid with the smallest mean squared error on tuning prompts.

    Errors are taken against the noisy labels of the queries, as in hold-out tuning on real data. Reported prompts must
    never be the tuning prompts: draw these from another stream, such as ``stream.child("tuning")``.

    Args:
        grid: estimators; the first wins a tie.
        prompts: tuning prompts with labelled queries.
        num_examples: context lengths to tune at, each at least 1; all N of the prompts by default.
        source: a note on the origin of the prompts, kept in the record.

    Raises:
        InputError: for an empty grid, no or unlabelled queries, or lengths outside ``[1, N]``.
    """
    if not isinstance(grid, Sequence) or not all(_estimates(each) for each in grid):
        raise InputError(f"the grid is {described(grid)}; expected a list of estimators, such as [Ridge(1)]")
    if not grid:
        raise InputError("the grid is empty; expected at least one estimator")
    check_prompts(prompts)
    if prompts.num_queries == 0 or prompts.batch_size == 0:
        raise InputError("the tuning prompts have no queries; sample them with num_queries >= 1")
    labels = check_finite("labels of the tuning queries", prompts.query_labels.double())
    sizes = sorted(
        set(check_sizes([prompts.num_examples] if num_examples is None else num_examples, prompts.num_examples))
    )
    if sizes[0] < 1:
        raise InputError("num_examples holds 0, where all estimators predict zero; expected lengths >= 1")
    errors = torch.stack(
        [(estimator.predict_at(prompts, sizes).double() - labels).square().mean((1, 2)) for estimator in grid]
    )
    check_finite("the tuning error (estimator, length)", errors)
    record = TuningRecord(
        names=tuple(estimator.name for estimator in grid),
        num_examples=tuple(sizes),
        errors=tuple(tuple(line) for line in errors.tolist()),
        num_prompts=prompts.batch_size,
        num_queries=prompts.num_queries,
        source=source,
    )
    return Tuned([grid[int(best)] for best in errors.argmin(0)], record)


def _estimates(value: object) -> bool:
    return callable(getattr(value, "predict_at", None)) and not isinstance(value, type)
