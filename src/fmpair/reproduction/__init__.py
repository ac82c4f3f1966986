"""The FM-Pair paper reproduced: its tables and figures as experiments, and verdicts."""
