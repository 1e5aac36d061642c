"""Making of micro-batches: which queue is asked, and which messages share a batch."""
