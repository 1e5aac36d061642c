"""Builds micro-batches: dequeues messages, and chooses the messages and the size of each batch."""
