"""Building of micro-batches: dequeue messages, choose the messages of a batch, and size batches."""
