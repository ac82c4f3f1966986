"""From one file to a table of results: read, plan, execute, store."""
