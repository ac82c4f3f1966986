"""Models the paper compares with: popularity, neighbours, EASE, ALS, SVD."""
