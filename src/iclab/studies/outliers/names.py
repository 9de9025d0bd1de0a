"""Names that the outlier error experiment writes and reads: metrics, learners, and the paper's letters for keys."""

from iclab.experiments.sections.outliers import TRAINING_LOSS as TRAINING_LOSS

ERROR = "error"
FLOOR = "no_clean_example"
NO_CLEAN_EXAMPLE = "prompts without a clean example"
ALPHA = "outlier_fraction"

TEST_LETTERS = {
    "num_examples": "l_ts",
    "outlier_fraction": "alpha",
    "outlier_size": "kappa_a'",
    "irrelevant_range": "K'",
    "label_rule": "labels",
    "input_noise": "noise",
    "outlier_vectors": "outliers",
}
"""Of the axes of the test law, as figures show them; an axis that is not here is called by its name."""

TRAINING_LETTERS = {
    "ambient_dim": "d",
    "relevant": "M1",
    "irrelevant": "M2",
    "outliers": "V",
    "norm": "beta",
    "outlier_norm": "|v|",
    "outlier_fraction": "p_a",
    "outlier_size": "kappa_a",
    "irrelevant_range": "K",
    "input_noise": "training noise",
    "label_rule": "training labels",
    "placement": "training placement",
    "sampling": "training sampling",
    "tasks": "training tasks",
}
"""Of the keys of the section ``prompts``."""

STEP_LETTERS = {
    "steps": "steps",
    "batch_size": "batch",
    "learning_rate": "step size",
    "gate_learning_rate": "step size of the gate",
    "num_examples": "l_tr",
}
"""Of the keys of a learner's ``training``."""
