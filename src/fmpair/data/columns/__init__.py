"""Columns of a log: their roles, how they are inferred, context leakage."""
