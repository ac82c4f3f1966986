"""Classic models to compare with: popularity, neighbours, Markov chains, factorizations."""
