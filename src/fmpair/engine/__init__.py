"""Engines: where training runs. Arrays only; importing one imports numba."""
