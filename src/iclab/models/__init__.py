"""Sequence models. How they are trained is in `iclab.pretraining`."""

from iclab.models.attention.attention import Attention
from iclab.models.attention.one_layer import GatedLinearAttention, SoftmaxAttention
from iclab.models.attention.recurrence import recurrent_outputs
from iclab.models.attention.stack import AttentionStack
from iclab.models.attention.token_model import TokenModel
from iclab.models.backbones.backbone import branch_by_repetition
from iclab.models.backbones.gpt2 import GPT2
from iclab.models.backbones.linear_attention import LinearAttention
from iclab.models.backbones.mamba import Mamba
from iclab.models.cache import detach_cache
from iclab.models.conversion.mamba_ssm_checkpoint import load_mamba_ssm
from iclab.models.conversion.transformers_weights import from_transformers, to_transformers
from iclab.models.in_context import InContextModel
from iclab.models.initial import initial_values
from iclab.models.layouts import LAYOUTS
from iclab.models.one_layer.embedding import EMBEDDINGS, block_degrees, embed, embedding_dim, in_support
from iclab.models.one_layer.label_gate import MODEL_GATES, LabelGate
from iclab.models.one_layer.model import OneLayerMamba
from iclab.models.one_layer.recurrence import recurrent_read
from iclab.models.one_layer.state_blocks import StateBlocks
from iclab.models.storage import load_model, save_model
from iclab.models.weight_decay import no_decay_names, parameter_groups

__all__ = [
    "EMBEDDINGS",
    "GPT2",
    "LAYOUTS",
    "MODEL_GATES",
    "Attention",
    "AttentionStack",
    "GatedLinearAttention",
    "InContextModel",
    "LabelGate",
    "LinearAttention",
    "Mamba",
    "OneLayerMamba",
    "SoftmaxAttention",
    "StateBlocks",
    "TokenModel",
    "block_degrees",
    "branch_by_repetition",
    "detach_cache",
    "embed",
    "embedding_dim",
    "from_transformers",
    "in_support",
    "initial_values",
    "load_mamba_ssm",
    "load_model",
    "no_decay_names",
    "parameter_groups",
    "recurrent_outputs",
    "recurrent_read",
    "save_model",
    "to_transformers",
]
