"""Sink: turns rows into requests, sends them, and counts the outcome of each request."""
