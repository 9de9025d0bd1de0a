"""Deep sequence models: Mamba, linear attention and GPT-2."""
