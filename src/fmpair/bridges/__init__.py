"""Recipes that let other libraries learn; of what they learned, arrays are kept."""
