"""From a recipe and data to learned parameters."""
