"""The one-layer Mamba of arXiv 2510.12026: embeddings, gates on labels, the state and its closed form."""
