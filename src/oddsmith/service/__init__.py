"""The decision service: the same engine behind HTTP, with a log that survives anything."""
