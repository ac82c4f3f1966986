"""Data with a known answer, public so that anyone's models can be tested with it."""

from fmpair.testing.toys import cold_items, day_and_night, two_tastes

__all__ = ["cold_items", "day_and_night", "two_tastes"]
