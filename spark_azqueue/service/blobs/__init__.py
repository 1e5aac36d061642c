"""Large bodies in blobs, and the references to these blobs in messages."""
