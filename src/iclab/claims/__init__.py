"""Claims of the papers: when numbers give a verdict, and which."""
