"""Bodies that Event Grid puts into a queue: their events, and the blobs that they name."""
