"""Information exponents before and after the gate."""
