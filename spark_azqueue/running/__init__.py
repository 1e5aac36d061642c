"""Runs of a query: restarts after a failure, and a run that reads everything in the queue."""
