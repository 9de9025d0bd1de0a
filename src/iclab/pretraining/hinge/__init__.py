"""Plain SGD on the hinge loss (arXiv 2510.00399)."""
