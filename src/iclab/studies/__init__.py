"""One folder a study: what a cell measures, its configuration, and the report of its results."""
