"""What a recipe becomes when fitted: recommend, explain, save. Needs no engine."""
