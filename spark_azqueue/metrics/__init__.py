"""Metrics: reports of the source, and the listener that collects them."""
