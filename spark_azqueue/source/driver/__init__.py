"""A query whose driver leases: what it does with a log and without; and how it ends."""
