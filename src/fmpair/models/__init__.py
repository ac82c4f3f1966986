"""Models: recipes and what they become when fitted."""
