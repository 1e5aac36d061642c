"""Runs of a query: restarts after a failure, and a run that reads all that is in the queue."""
