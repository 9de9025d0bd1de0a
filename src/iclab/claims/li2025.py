"""The claims of arXiv 2510.00399 that runs are judged by, and the check of the attack's search."""

from __future__ import annotations

from iclab.claims.claim import Claim

SOURCE = "arXiv 2510.00399"

MOST_LOSS = 0.15
"""Mean over seeds of the hinge loss of the last window of training, above which a model has not learned. A model whose
output is zero has 1; trained linear Transformers have 0.09 where more than half of the examples have random labels, and
0.12 with noise on the inputs too; trained gates have less than 0.02."""

LEARNED = f"the last window of training has a mean loss of at most {MOST_LOSS:g}"
ONE_LAYER = "the model has one layer"
LOOKED_AT_END = "attention was looked at after training, at the same step of all seeds"
ALL_SEEDS = "every seed has the ratio"
POSITIVE_SUM = "every test outlier has a positive sum of coefficients (lambda > 0)"
PUBLISHED = "the setting is that of the published table, as far as it is printed"

CONCENTRATION = Claim(
    "B2",
    "attention concentrates on examples of the query's pattern",
    SOURCE,
    "share of the absolute attention on them, last layer",
    ">",
    0.5,
    (LOOKED_AT_END, LEARNED),
)

SUPPRESSED = Claim(
    "B3.outliers",
    "the gate suppresses outliers (taken as less than a tenth of the nearest clean example)",
    SOURCE,
    "mean gate of outliers over that of the nearest clean example",
    "<",
    0.1,
    (ONE_LAYER, LEARNED, ALL_SEEDS),
)
DECAY = Claim(
    "B3.clean",
    "the gate of clean examples stays above 2^-(j-1) times that of the nearest",
    SOURCE,
    "least of G_j / (2^-(j-1) G_1)",
    ">",
    1.0,
    (ONE_LAYER, LEARNED, ALL_SEEDS),
)

LEVELS = (0.01, 0.02)
"""Errors that the paper's figure, and our own check of it, call good."""

_ERROR = "0-1 error"
MAMBA_TOLERATES = Claim(
    "B4",
    f"the error is small (below {LEVELS[1]:g}) for alpha < p_a l_tr / l_ts",
    SOURCE,
    _ERROR,
    "<",
    LEVELS[1],
    (POSITIVE_SUM, LEARNED),
)
LINEAR_TOLERATES = Claim(
    "B5.tolerates",
    f"the error is small (below {LEVELS[1]:g}) for alpha < 1/2",
    SOURCE,
    _ERROR,
    "<",
    LEVELS[1],
    (POSITIVE_SUM, LEARNED),
)
LINEAR_FAILS = Claim(
    "B5.fails",
    "the model fails (error above 1/2) where more than half of the labels are flipped",
    SOURCE,
    _ERROR,
    ">",
    0.5,
    (LEARNED,),
)

SLOPES = {
    kind: {
        axis: Claim(
            f"B6.{kind}.{axis}",
            f"steps to a loss go like {letters} to the power {power:g}",
            SOURCE,
            f"slope of log steps in log {letters}",
            "within",
            power,
            tolerance=0.25,
        )
        for axis, letters, power in (
            ("num_examples", "l_tr", 0.0 if kind == "gated" else -1.0),
            ("outlier_fraction", "1/(1 - p_a)", 1.0),
            ("relevant", "M1", 1.0),
        )
    }
    for kind in ("gated", "linear")
}
"""By kind of learner and what is varied; ``T_M ~ M1 / (eta (1 - p_a) beta^2)`` and ``T_T = T_M / l_tr``, of one layer,
as are the theorems. The tolerance: claims are orders of magnitude, which bend a slope of a few values; it is a factor
1.8 over a decade."""

COLLAPSE = Claim(
    "B8",
    "outliers closest to the query cost Mamba at least 10 points",
    SOURCE,
    "accuracy at random positions less that closest to the query, in points, paired",
    ">",
    10.0,
    (PUBLISHED, LEARNED),
)
NO_COLLAPSE = Claim(
    "B9",
    "without gates the placement of outliers makes no difference (less than 1 point)",
    SOURCE,
    "accuracy at random positions less that elsewhere, in points, paired",
    "within",
    0.0,
    (PUBLISHED, LEARNED),
    tolerance=1.0,
)

FIGURE = Claim(
    "B10",
    "the error is below 0.01 at alpha = 0.8",
    SOURCE,
    _ERROR,
    "<",
    LEVELS[0],
    (LEARNED,),
    refutable=False,
)
"""The figure's kappa_a' is not known, so a larger error at one of them refutes nothing."""

SEARCH = Claim(
    "search",
    "the gradient search leaves a smaller margin than as many random directions, at every size",
    "docs/outliers_dynamics.md",
    "margin under the random search less that under the gradient search, paired",
    ">",
    0.0,
    ("margins were kept prompt by prompt",),
)
"""No claim of the paper: it should hold everywhere, or it is no search."""
