"""The claims of arXiv 2510.12026 that runs are judged by, and the check of its moments."""

from __future__ import annotations

from iclab.claims.claim import Claim

SOURCE = "arXiv 2510.12026"

GATE_CAN_HELP = "the link's generative exponent is below its information exponent (ge < ie)"
TWINS = "the two models differ in the gate alone"
LEARNS = 0.9
"""Of the error of predicting zero: a model with a smaller error learns in context."""

EXPONENT_EXISTS = "there is a generative exponent up to the degree looked at"
EXPONENT = Claim(
    "A1",
    "the gate lowers the information exponent to the generative one",
    SOURCE,
    "information exponent after the gate",
    "=",
    0.0,
    (EXPONENT_EXISTS,),
)
"""The threshold of each estimate is the generative exponent of its link."""

SUPPORT = Claim(
    "A2",
    "with ge < ie the gate lets Stage I find the support",
    SOURCE,
    "area under the ROC curve with the gate less that without, degree 1, paired",
    ">",
    0.0,
    (GATE_CAN_HELP,),
)

SHARP = "the dimensions are so large that constants do not blur the exponent"
CONTEXT_IN_R = Claim(
    "A4",
    "the context length needed goes like r^Theta(ge)",
    SOURCE,
    "slope of log N in log r",
    "=",
    0.0,
    (SHARP,),
)
"""No run of the catalogue is large enough for a verdict; the slope is kept beside the claim."""

CONTEXT_IN_D = Claim(
    "A5",
    "the context length needed does not depend on d at fixed r",
    SOURCE,
    "slope of log N in log d",
    "within",
    0.0,
    tolerance=0.25,
)

GATE = Claim(
    "A11",
    "with ge < ie the gate makes the model learn in context",
    SOURCE,
    "squared error of the gated model and of its ungated twin",
    "<",
    LEARNS,
    (GATE_CAN_HELP, TWINS),
)
"""The gated model's error lies below `LEARNS` times the error of predicting zero, and its twin's above."""

SEEN = "samples see the moments of some point"
MOMENTS = Claim(
    "moments",
    "the exact alignment lies within the simulated intervals, but for chance",
    "docs/theory/gate_moments.md",
    "exact values outside their intervals",
    "<",
    0.0,
    (SEEN,),
)
