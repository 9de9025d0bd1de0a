"""Recovery of the support by Stage I."""
