"""Files as they arrive, and the events that name them."""
