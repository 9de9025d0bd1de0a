"""Claims and their verdicts as data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from iclab.errors import InputError, cut, listed

if TYPE_CHECKING:
    import pandas as pd

    from iclab.evaluation import Slope
    from iclab.results.results import Difference

Verdict = Literal["supported", "contradicted", "undecided", "not applicable"]
_NUMBERS = {"value", "low", "high", "level", "threshold", "tolerance", "slack"}
VERDICTS: tuple[Verdict, ...] = ("supported", "contradicted", "undecided", "not applicable")
Relation = Literal["<", ">", "within", "="]
Reason = Literal[
    "whole interval",  # lies on one side of the threshold, or all of the number where it is exact
    "straddles",  # the interval reaches over the threshold
    "few seeds",
    "few values",  # of the abscissa of a slope
    "no interval",
    "not measured",
    "unresolved",  # the number or its threshold is NaN: the mathematics behind it is undecided
    "refutes nothing",  # the number is on the other side, and the claim does not exclude that
    "measured too little",  # what was measured supports the claim and is too easy a part of it
    "condition",  # one of the claim's conditions fails
    "chance",  # of a count: no more than chance would give
    "half",  # of a count: more than half
    "far",  # of a count: one lies outside even the widened interval
    "more than chance",  # of a count: none of the above
]


@dataclass(frozen=True)
class Claim:
    """A sentence that numbers can support or contradict.

    Attributes:
        id: unique, such as ``A11``; results of one claim are found by it.
        sentence: what is claimed.
        source: where, such as ``arXiv 2510.12026``, or what of ours states it.
        statistic: the number that is compared, in words.
        relation: how it compares with the threshold: ``<``, ``>``, ``within`` (at most `tolerance` from it), ``=``.
        threshold: in the units of the statistic.
        conditions: where the claim says something; elsewhere it is not applicable.
        tolerance: of ``within``.
        refutable: whether a number on the other side contradicts the claim.
    """

    id: str
    sentence: str
    source: str
    statistic: str
    relation: Relation
    threshold: float
    conditions: tuple[str, ...] = ()
    tolerance: float = 0.0
    refutable: bool = True

    def __post_init__(self) -> None:
        if self.relation not in get_args(Relation):
            known = listed(get_args(Relation))
            raise InputError(f"the relation of claim {self.id!r} is {cut(self.relation)}; expected one of {known}")
        if isinstance(self.conditions, str) or not all(isinstance(text, str) for text in self.conditions):
            raise InputError(
                f"the conditions of claim {self.id!r} are {cut(self.conditions)}; expected a tuple of strings"
            )


@dataclass(frozen=True)
class Rule:
    """A rule that a verdict follows; the page shows its text."""

    name: str
    text: str


@dataclass(frozen=True)
class Interval:
    """The interval of an estimate; ``level`` is ``nan`` for kinds that have no coverage."""

    low: float
    high: float
    level: float
    kind: str


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, and what it rests on.

    Attributes:
        value: the number.
        interval: ``None`` where there is none.
        seeds: how many; 0 for an exact number.
        prompts: of each seed; 0 where the number rests on none.
        label: which of several numbers of one claim this is, such as ``alpha = 0.5``.
        relation, threshold: where they differ from the claim's.
        slack: how far beyond the threshold the number may lie without contradicting the claim.
        values: of a slope: measured values of the abscissa.
        share: whether it is a mean of outcomes that are 0 or 1; then no outcome of 1 is no proof of 0.
    """

    value: float
    interval: Interval | None
    seeds: int
    prompts: int = 0
    label: str = ""
    relation: Relation | None = None
    threshold: float | None = None
    slack: float = 0.0
    values: int | None = None
    share: bool = False

    @classmethod
    def exact(cls, value: float, label: str = "") -> Estimate:
        """Make an estimate of a number without sampling error.

        Args:
            value: the number.
            label: as in `Estimate`.
        """
        return cls(value, Interval(value, value, math.nan, "exact"), 0, label=label)

    @classmethod
    def of(cls, found: pd.Series | Difference, scale: float = 1.0, **settings: Any) -> Estimate:
        """Make an estimate from a row of a summary or from a paired difference.

        Args:
            found: the row or the difference.
            scale: multiplies the number and its interval: 100 for per cent.
            **settings: further attributes.
        """
        low, high = scale * float(found.low), scale * float(found.high)
        level = float(getattr(found, "level", math.nan))
        return cls(
            scale * float(found.value),
            Interval(low, high, level, str(found.interval)) if low <= high else None,
            int(found.num_seeds),
            int(found.num_prompts),
            **settings,
        )

    @classmethod
    def of_slope(cls, slope: Slope, seeds: int) -> Estimate:
        """Make an estimate of the exponent of a power law.

        Args:
            slope: the fitted exponent with its interval.
            seeds: how many it rests on.
        """
        found = Interval(slope.low, slope.high, slope.level, slope.kind) if slope.low <= slope.high else None
        return cls(slope.slope, found, seeds, values=slope.num_points)


@dataclass(frozen=True)
class Size:
    """What could decide an undecided claim: so many seeds, prompts of each seed, or values of the abscissa."""

    seeds: int | None = None
    prompts: int | None = None
    values: int | None = None


@dataclass(frozen=True)
class ClaimResult:
    """What numbers say of a claim at one grid point.

    Attributes:
        claim: the claim.
        verdict: what follows.
        reason: why, as a key.
        estimates: the numbers that were compared; the verdict needs all of them to hold.
        rules: those that were applied.
        subject: what the numbers are of, such as a learner.
        at: the grid point's title; empty where nothing is swept.
        settings: the grid point's keys.
        condition: the condition that fails; empty where all hold.
        size_that_could_decide: for an undecided verdict, if it can be estimated.
        remarks: further facts, as sentences.
    """

    claim: Claim
    verdict: Verdict
    reason: Reason
    estimates: tuple[Estimate, ...] = ()
    rules: tuple[Rule, ...] = ()
    subject: str = ""
    at: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    condition: str = ""
    size_that_could_decide: Size | None = None
    remarks: tuple[str, ...] = ()
    decisive: int = 0

    @property
    def estimate(self) -> Estimate | None:
        """The number that decides: the one farthest on the wrong side of its threshold."""
        return self.estimates[self.decisive] if self.estimates else None

    @property
    def interval(self) -> Interval | None:
        """Of the number that decides."""
        return self.estimate.interval if self.estimate else None

    @property
    def seeds(self) -> int:
        """The fewest that any of the numbers rests on."""
        return min((e.seeds for e in self.estimates), default=0)

    @property
    def prompts(self) -> int:
        """The fewest of each seed that any of the numbers rests on."""
        return min((e.prompts for e in self.estimates), default=0)

    def remarked(self, *remarks: str) -> ClaimResult:
        """Return the same with further remarks; empty ones are left out."""
        return replace(self, remarks=(*self.remarks, *filter(None, remarks)))


def to_json(results: Sequence[ClaimResult]) -> list[dict[str, Any]]:
    """Write claims with their verdicts as JSON.

    Numbers that are not finite become the strings ``nan``, ``inf``, ``-inf``.
    """
    return [_plain(asdict(result)) for result in results]


def from_json(content: Sequence[Mapping[str, Any]]) -> list[ClaimResult]:
    """Read the results that `to_json` has written."""
    return [_result(_floats(entry)) for entry in content]


def _result(entry: dict[str, Any]) -> ClaimResult:
    size = entry["size_that_could_decide"]
    parsed: dict[str, Any] = {
        "claim": Claim(**entry["claim"] | {"conditions": tuple(entry["claim"]["conditions"])}),
        "estimates": tuple(Estimate(**e | {"interval": _interval(e["interval"])}) for e in entry["estimates"]),
        "rules": tuple(Rule(**rule) for rule in entry["rules"]),
        "size_that_could_decide": Size(**size) if size else None,
        "remarks": tuple(entry["remarks"]),
    }
    return ClaimResult(**{**entry, **parsed})


def _interval(entry: dict[str, Any] | None) -> Interval | None:
    return Interval(**entry) if entry else None


def _plain(value: Any) -> Any:
    """JSON's types alone, from nested Python and NumPy values."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _floats(value: Any, key: str = "") -> Any:
    """The numbers back that are not finite."""
    if isinstance(value, Mapping):
        return {name: _floats(entry, name) for name, entry in value.items()}
    if isinstance(value, list):
        return [_floats(entry, key) for entry in value]
    return float(value) if key in _NUMBERS and isinstance(value, str) else value
