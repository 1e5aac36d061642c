"""Large bodies in blobs, and the references to them in messages."""
