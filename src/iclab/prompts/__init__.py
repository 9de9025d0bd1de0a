"""Batches of in-context learning problems, their laws, and stateless random streams."""

from iclab.prompts.batch import Prompts
from iclab.prompts.distribution import CHUNK, PromptDistribution
from iclab.prompts.inputs import INPUT_LAWS, InputLaw
from iclab.prompts.single_index import SingleIndex
from iclab.prompts.stream import Stream

__all__ = ["CHUNK", "INPUT_LAWS", "InputLaw", "PromptDistribution", "Prompts", "SingleIndex", "Stream"]
