"""In-context error against the number of examples."""
