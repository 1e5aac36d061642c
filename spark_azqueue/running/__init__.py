"""Runs queries: restarts a query after failures, drains a queue, and writes a queue to a table."""
