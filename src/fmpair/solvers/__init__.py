"""Learners that are no pair engine: arrays in, arrays out."""
