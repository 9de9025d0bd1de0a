"""What the numbers of a run are: tables, grid points, contrasts, wording; figures and tables as plain data."""
