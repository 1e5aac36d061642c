"""The write-ahead log: where it is stored, and what is in it."""
