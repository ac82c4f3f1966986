"""Learners other than the pair engines: arrays in, arrays out."""
