"""Consumers of a query whose driver leases, and the messages left in its queues between runs."""
