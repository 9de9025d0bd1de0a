"""Models of arXiv 2510.00399: gated linear, linear and softmax attention on whole tokens ``(x, y)``."""
