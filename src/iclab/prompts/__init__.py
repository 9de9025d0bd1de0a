"""Batches of in-context learning problems, their distributions, and stateless random streams."""

from iclab.prompts.batch import Prompts
from iclab.prompts.distribution import PromptDistribution, label_variance
from iclab.prompts.drawn import CHUNK
from iclab.prompts.inputs import INPUT_DISTRIBUTIONS, InputDistribution
from iclab.prompts.labelled_vectors import LabelledVectors
from iclab.prompts.outlier_classification import OutlierClassification
from iclab.prompts.outlier_prompts import OutlierPrompts
from iclab.prompts.outlier_rules import LABEL_RULES, PLACEMENTS, SAMPLINGS, OutlierRules
from iclab.prompts.single_index import SingleIndex
from iclab.prompts.stream import Stream
from iclab.prompts.task_pairs import task_pairs
from iclab.prompts.vector_classification import VectorClassification

__all__ = [
    "CHUNK",
    "INPUT_DISTRIBUTIONS",
    "LABEL_RULES",
    "PLACEMENTS",
    "SAMPLINGS",
    "InputDistribution",
    "LabelledVectors",
    "OutlierClassification",
    "OutlierPrompts",
    "OutlierRules",
    "PromptDistribution",
    "Prompts",
    "SingleIndex",
    "Stream",
    "VectorClassification",
    "label_variance",
    "task_pairs",
]
