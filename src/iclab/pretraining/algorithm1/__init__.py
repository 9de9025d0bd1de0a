"""The one-layer Mamba of arXiv 2510.12026: Algorithm 1 in two stages, and joint training beside it."""
