"""FM-Pair and its variants."""
