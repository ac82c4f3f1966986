"""The paper on FM-Pair, reproduced: its tables and figures as experiments, and what they show."""
