"""The rules by which numbers become verdicts, at their edges."""

import json
import math
from dataclasses import replace

import pytest

from iclab.claims.claim import Claim, ClaimResult, Estimate, Interval, Size, from_json, to_json
from iclab.claims.rules import EVERY, GRID, INTERVAL, MIN_SEEDS, SEEDS, SLOPE, groups, judge, overall, tally
from iclab.claims.wording import claim_text, group_text
from iclab.errors import InputError
from iclab.evaluation.intervals import MIN_SEEDS_FOR_BAND

BELOW = Claim("C1", "the error is small", "a paper", "0-1 error", "<", 0.02, ("it has learned",))
FLAT = Claim("C2", "it does not depend on d", "a paper", "slope", "within", 0.0, tolerance=0.25)


def number(low: float, value: float, high: float, seeds: int = 5, **settings) -> Estimate:
    return Estimate(value, Interval(low, high, 0.95, "bootstrap"), seeds, 128, **settings)


@pytest.mark.parametrize(
    ("low", "high", "values", "seeds", "verdict", "reason"),
    [
        (-0.2, 0.25, 3, 5, "supported", "whole interval"),
        (-0.2, 0.3, 3, 5, "undecided", "straddles"),
        (0.26, 0.4, 3, 5, "contradicted", "whole interval"),
        (-0.4, -0.26, 3, 5, "contradicted", "whole interval"),
        (0.0, 0.0, 2, 5, "undecided", "few values"),  # two points always lie on a line
        (0.0, 0.0, 3, 4, "undecided", "few seeds"),
    ],
)
def test_a_slope_needs_three_values_and_five_seeds(low, high, values, seeds, verdict, reason):
    found = judge(FLAT, number(low, (low + high) / 2, high, seeds, values=values))
    assert (found.verdict, found.reason) == (verdict, reason)
    assert found.rules == (SEEDS, INTERVAL, SLOPE)


def test_a_slope_without_interval_is_undecided():
    found = judge(FLAT, Estimate(0.0, None, 5, values=3))
    assert (found.verdict, found.reason) == ("undecided", "no interval")


def test_a_verdict_needs_the_seeds_that_an_interval_needs():
    assert MIN_SEEDS == MIN_SEEDS_FOR_BAND
    for kind in ("range", "prompts"):
        few = Estimate(0.0, Interval(0.0, 0.0, math.nan, kind), 5, 128)
        assert judge(BELOW, few).reason == "few seeds"
    assert judge(BELOW, number(0, 0, 0, 3)).size_that_could_decide == Size(seeds=5)


@pytest.mark.parametrize(
    ("relation", "low", "high", "verdict"),
    [
        ("<", 0.0, 0.019, "supported"),
        ("<", 0.021, 0.03, "contradicted"),
        ("<", 0.01, 0.02, "undecided"),
        (">", 0.021, 0.03, "supported"),
        (">", 0.0, 0.019, "contradicted"),
        (">", 0.0, 0.1, "undecided"),
    ],
)
def test_a_verdict_follows_the_whole_interval(relation, low, high, verdict):
    found = judge(replace(BELOW, relation=relation), number(low, (low + high) / 2, high))
    assert found.verdict == verdict
    assert found.interval == Interval(low, high, 0.95, "bootstrap")
    assert (found.seeds, found.prompts) == (5, 128)


def test_exact_numbers_need_no_seeds():
    same = Claim("C3", "they are equal", "a paper", "exponent", "=", 1.0)
    assert judge(same, Estimate.exact(1.0)).verdict == "supported"
    assert judge(same, Estimate.exact(2.0)).verdict == "contradicted"
    assert judge(same, Estimate.exact(math.nan)).verdict == "undecided"
    assert judge(BELOW, Estimate.exact(0.02)).verdict == "contradicted"  # not below


def test_a_failing_condition_leaves_the_number_and_no_verdict():
    found = judge(BELOW, number(0.3, 0.4, 0.5), unmet="it has learned")
    assert (found.verdict, found.reason, found.condition) == ("not applicable", "condition", "it has learned")
    assert [e.value for e in found.estimates] == [0.4]
    assert judge(BELOW, []).reason == "not measured"


def test_one_number_on_the_wrong_side_contradicts_and_decides():
    good, bad, open_ = number(0, 0.01, 0.015), number(0.03, 0.04, 0.05), number(0.01, 0.018, 0.03)
    assert judge(BELOW, [good, good]).verdict == "supported"
    found = judge(BELOW, [good, bad, open_])
    assert (found.verdict, found.estimate) == ("contradicted", bad)
    assert found.rules == (SEEDS, INTERVAL, EVERY)
    found = judge(BELOW, [good, open_])
    assert (found.verdict, found.estimate) == ("undecided", open_)


def test_slack_and_claims_that_nothing_refutes():
    assert judge(BELOW, number(0.03, 0.04, 0.05, slack=0.02)).verdict == "undecided"
    found = judge(replace(BELOW, refutable=False), number(0.03, 0.04, 0.05))
    assert (found.verdict, found.reason) == ("undecided", "refutes nothing")
    # More seeds would end there too, unless the number is on the claim's side now.
    wrong, right = number(0.01, 0.021, 0.03), number(0.01, 0.018, 0.03)
    assert judge(BELOW, wrong).size_that_could_decide is not None
    assert judge(replace(BELOW, refutable=False), wrong).size_that_could_decide is None
    assert judge(replace(BELOW, refutable=False), right).size_that_could_decide is not None
    found = judge(BELOW, number(0, 0.01, 0.015), too_little=True)
    assert (found.verdict, found.reason) == ("undecided", "measured too little")


def test_no_wrong_prompt_is_not_an_error_of_exactly_zero():
    """Of 640 prompts none was wrong: the error may still be 3/640 = 0.0047; of 50 it may be 0.06."""
    none = number(0, 0, 0, share=True)
    assert judge(BELOW, none).interval == Interval(0, 3 / 640, 0.95, "bootstrap")
    found = judge(BELOW, replace(none, prompts=10))
    assert found.verdict == "undecided"
    assert found.size_that_could_decide == Size(prompts=31)  # 3 / (5 * 31) = 0.0194


def test_seeds_that_could_decide():
    """The half-width 0.01 has to shrink below the gap 0.004: 5 (0.01 / 0.004)^2 = 31.25 seeds."""
    assert judge(BELOW, number(0.014, 0.024, 0.034)).size_that_could_decide == Size(seeds=32)
    assert judge(BELOW, number(0.006, 0.016, 0.026)).size_that_could_decide == Size(seeds=32)
    assert judge(BELOW, number(0.01, 0.02, 0.03)).size_that_could_decide is None  # on the threshold
    both = judge(FLAT, number(-0.3, 0.1, 0.5, values=4))  # 0.25 is nearer than -0.25: 5 (0.4 / 0.15)^2 = 35.6
    assert both.size_that_could_decide == Size(seeds=36)
    assert judge(BELOW, number(0, 0.01, 0.015)).size_that_could_decide is None


def _at(verdict: str, at: str, subject: str = "m") -> ClaimResult:
    return ClaimResult(BELOW, verdict, "straddles", at=at, subject=subject)  # type: ignore[arg-type]


def test_only_unanimity_decides_over_grid_points():
    one = [_at("supported", "a"), _at("supported", "b"), _at("not applicable", "c")]
    assert overall(one) == "supported"
    assert overall([*one, _at("contradicted", "d")]) == "undecided"
    assert overall([*one, _at("undecided", "d")]) == "undecided"
    assert overall([_at("contradicted", "a")] * 3) == "contradicted"
    assert overall([_at("not applicable", "a")]) == "not applicable"
    several = [*one, _at("contradicted", "a", "other")]
    assert [len(group) for group in groups(several)] == [3, 1]
    assert tally(several) == {"supported": 1, "contradicted": 1}
    assert "supported at 2 (a; b); not applicable at 1 (c)" in group_text(one)
    assert GRID.name == "grid points"


def test_claims_go_through_json_and_back():
    results = [
        judge(BELOW, [number(0.01, 0.018, 0.03, label="alpha = 0.5"), number(0, 0, 0, share=True)], at="r = 2",
              subject="m", settings={"r": 2, "link": None}, remarks=["A remark."]),
        judge(FLAT, Estimate.exact(math.inf), unmet="x"),
        judge(FLAT, []),
    ]  # fmt: skip
    text = json.dumps(to_json(results), allow_nan=False)
    back = from_json(json.loads(text))
    assert json.dumps(to_json(back)) == text
    assert back[0].estimates == results[0].estimates
    assert (back[0].claim, back[0].rules, back[2]) == (results[0].claim, results[0].rules, results[2])
    assert back[1].estimate is not None
    assert back[1].estimate.value == math.inf


def test_a_sentence_has_the_numbers_and_what_they_rest_on():
    found = judge(BELOW, number(0.014, 0.024, 0.034), at="r = 2", subject="Mamba", remarks=["At N = 8."])
    text = claim_text(found)
    for part in ("r = 2", "Mamba", "the error is small", "0.024 (0.014 to 0.034)", "5 seeds, 128 prompts each",
                 "below 0.02", "32 seeds", "At N = 8."):  # fmt: skip
        assert part in text, part


def test_malformed_claims_and_estimates_are_refused():
    with pytest.raises(InputError, match="the relation of claim 'C1' is '<='; expected one of '<', '>'"):
        replace(BELOW, relation="<=")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the conditions of claim 'C1' are 'N > 2d'; expected a tuple"):
        replace(BELOW, conditions="N > 2d")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"an estimate of claim 'C1' is .*; expected an Estimate"):
        judge(BELOW, 0.01)  # type: ignore[arg-type]
