"""The sink: rows become requests, and each one is answered."""
