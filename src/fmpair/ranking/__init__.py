"""The best items of many queries, and the ranks of given ones: arrays only."""
