"""Names that every error run measures under, beside those of its learners."""

ZERO = "zero predictor"
THEORY = "exact alignment, Gaussian state"
