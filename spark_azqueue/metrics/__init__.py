"""Metrics: the reports of a source, and the listener that collects them."""
