"""Claims of the papers and their verdicts as data: when numbers give a verdict, and which."""

from iclab.claims.claim import VERDICTS, Claim, ClaimResult, Estimate, Interval, Rule, Size, from_json, to_json
from iclab.claims.rules import MIN_SEEDS, MIN_VALUES, groups, judge, overall, tally

__all__ = [
    "MIN_SEEDS",
    "MIN_VALUES",
    "VERDICTS",
    "Claim",
    "ClaimResult",
    "Estimate",
    "Interval",
    "Rule",
    "Size",
    "from_json",
    "groups",
    "judge",
    "overall",
    "tally",
    "to_json",
]
