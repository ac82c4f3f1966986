"""Events that a service collects: stored in a database, exported, learned from, compared."""
