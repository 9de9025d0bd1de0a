"""The root mean square norm between layers."""
