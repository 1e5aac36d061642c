"""Consumers of a query whose driver leases, and the look at its queues between runs."""
