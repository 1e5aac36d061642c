"""Reads files as they arrive, by the events that name them."""
