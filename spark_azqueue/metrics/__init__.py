"""Metrics: what the source reports, and the listener that collects it."""
