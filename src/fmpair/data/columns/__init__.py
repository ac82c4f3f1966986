"""Columns of a log: their roles, and what they tell."""
