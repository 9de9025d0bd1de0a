"""The claim of arXiv 2510.12026 about the gate, from the errors of a gated model and of its ungated twin."""

from __future__ import annotations

from typing import Any, Literal

from iclab.claims.claim import ClaimResult, Estimate
from iclab.claims.oh2025 import GATE, GATE_CAN_HELP, LEARNS, TWINS
from iclab.claims.rules import judge
from iclab.results.wording import number
from iclab.studies.error.comparisons import Comparison

_OF_THE_GATE = {"label", "role", "gate", "rho", "b", "bias_scale"}


def gate_claim(pair: Comparison) -> ClaimResult | None:
    """Judge whether the gated model learns in context while its ungated twin does not.

    Args:
        pair: the first model against a rival at one grid point.

    Returns:
        ``None`` if the rival is no ungated ablation. The claim is not applicable for links with ge = ie, and where the
        two models differ in more than the gate; it is undecided where the error of predicting zero is missing.
    """
    config = pair.point.config
    model, rival = (_section(config, name) for name in (pair.model, pair.rival))
    if not _is_ungated(rival):
        return None
    more, helps = _differences(model, rival), _helps(config["prompts"])
    remarks = [f"At N = {pair.num_examples}."]
    if more:
        remarks.append(f"They differ in {more}.")
    elif helps == "undecided":
        remarks.append("The numbers do not decide the link's exponents.")
    estimates: list[Estimate] = []
    if pair.zero is None:
        remarks.append("The error of predicting zero was not measured; run these cells again to have it.")
    else:
        threshold = LEARNS * pair.zero
        remarks.append(f"Predicting zero gives {number(pair.zero)}.")
        estimates = [
            Estimate.of(pair.model_row, label="gated", threshold=threshold),
            Estimate.of(pair.rival_row, label="ungated", relation=">", threshold=threshold),
        ]
    return judge(
        GATE,
        estimates,
        subject=f"{pair.model} against {pair.rival}",
        at=pair.point.title,
        settings=pair.point.key,
        unmet=TWINS if more else "" if helps == "yes" else GATE_CAN_HELP,
        remarks=remarks,
    )


def gate_can_help(link: Any) -> Literal["yes", "no", "undecided"]:
    """Return whether the generative exponent of the link lies below its information exponent."""
    from iclab.theory import generative_exponent, information_exponent

    ie, ge = information_exponent(link), generative_exponent(link)
    if ie.undecided or ge.undecided:
        return "undecided"
    inf = float("inf")
    return "yes" if (inf if ge.value is None else ge.value) < (inf if ie.value is None else ie.value) else "no"


def _helps(prompts: dict[str, Any]) -> str:
    """As `gate_can_help`; ``no`` for prompts without a link."""
    return gate_can_help(prompts["link"]) if "link" in prompts else "no"


def _section(config: dict, learner: str) -> dict:
    """The section of a learner, by the name that figures show."""
    return next((s for name, s in config["learners"].items() if (s["label"] or name) == learner), {})


def _is_ungated(section: dict) -> bool:
    return section.get("kind") == "one_layer" and section["role"] == "ablation" and section["gate"] == "linear"


def _differences(model: dict, ungated: dict) -> str:
    """What tells a model and its ungated ablation apart beside the gate; empty for twins."""
    if model.get("kind") != "one_layer" or model["gate"] == "linear":
        return "more than the gate: the first model has none"
    there, here = (
        {key: value for key, value in section.items() if key not in _OF_THE_GATE} for section in (model, ungated)
    )
    there, here = there | there.pop("pretraining"), here | here.pop("pretraining")
    return ", ".join(key for key in {**there, **here} if there.get(key) != here.get(key))
