"""Studies of arXiv 2510.00399: classification in context where some examples lie."""
