"""The trainer of deep models: Adam on fresh prompts, with checkpoints, curricula and several processes."""
