"""Top-n lists of many queries, and the ranks of given items. Arrays only."""
