"""The calls to queues, as values, and who makes them."""
