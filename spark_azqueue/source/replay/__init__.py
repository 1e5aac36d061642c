"""Reads a write-ahead log as a table. Readers never write to the log."""
