"""Sequence models. How they are trained is in `iclab.pretraining`."""

from iclab.models.embedding import EMBEDDINGS, block_degrees, embed, embedding_dim, in_support
from iclab.models.label_gate import MODEL_GATES, LabelGate
from iclab.models.one_layer import OneLayerMamba, StateBlocks
from iclab.models.recurrence import recurrent_read
from iclab.models.storage import load_model, save_model

__all__ = [
    "EMBEDDINGS",
    "MODEL_GATES",
    "LabelGate",
    "OneLayerMamba",
    "StateBlocks",
    "block_degrees",
    "embed",
    "embedding_dim",
    "in_support",
    "load_model",
    "recurrent_read",
    "save_model",
]
