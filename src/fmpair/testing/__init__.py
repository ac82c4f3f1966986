"""Data with a known answer and the contract of models, public so that anyone can test with them."""

from fmpair.testing.contract import RULES, ModelContract
from fmpair.testing.toys import cold_items, day_and_night, shop_log, two_tastes

__all__ = ["RULES", "ModelContract", "cold_items", "day_and_night", "shop_log", "two_tastes"]
