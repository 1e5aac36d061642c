"""The calls to queues, as values, and the clients that make them."""
