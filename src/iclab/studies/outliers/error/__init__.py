"""Error under outliers."""
