"""Further ways to a token."""
