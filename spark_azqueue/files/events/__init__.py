"""Bodies that Event Grid puts into a queue: their events, and the blobs in these events."""
