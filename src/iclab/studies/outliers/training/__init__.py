"""Attention and loss while models are trained on outlier prompts."""
