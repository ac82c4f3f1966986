"""The point-wise factorization machine and FM-Map."""
