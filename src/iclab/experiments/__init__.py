"""The catalogue of experiments: YAML files that compose prompts, learners, a grid and metrics, and their schema."""
