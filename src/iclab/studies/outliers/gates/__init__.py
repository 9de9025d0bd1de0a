"""Gate values of outliers and of clean examples."""
