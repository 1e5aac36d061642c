"""A write-ahead log as a table, for readers that never write to it."""
