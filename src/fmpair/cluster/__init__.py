"""A Ray cluster: reached by its address, checked, given tasks. Nothing here imports ray at once."""
