"""Events that a service takes in: kept by a database, exported, learned from, compared."""
